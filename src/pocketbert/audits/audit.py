"""`pb.audit`: ask a classifier about every item of a suite, and measure what the swaps do."""

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.audits import wording
from pocketbert.audits.intervals import one_sided_p_value
from pocketbert.audits.measures import FEWEST, MARGIN, change_noise, measure_change, share_interval
from pocketbert.audits.own_texts import own_texts
from pocketbert.audits.predictors import Predictor, as_predictors
from pocketbert.audits.result import AuditResult, Breakdown, ChangeResult, WorstPair
from pocketbert.audits.suite_data import DATA_SUITES
from pocketbert.audits.suite_files import read_suite
from pocketbert.audits.suites import BUILT_IN, Item, Suite, Swap, Texts
from pocketbert.errors import UserError
from pocketbert.statistics import LEVEL, holm
from pocketbert.tasks import Split

WORST = 10  # pairs that are shown
SYNONYMS = {
    "positive": {"positive", "pos", "good"},
    "negative": {"negative", "neg", "bad"},
    "entailment": {"entailment", "entails", "entailed"},
}
OWN = "own"


def audit(
    classifier: Any,
    suite: str | os.PathLike[str] | Suite = "pronouns",
    *,
    compare: Sequence[str] | None = None,
    label: str | None = None,
    margin: float = MARGIN,
    texts: Any = None,
    small: bool = False,
    tick: Callable[[int], None] | None = None,
) -> AuditResult:
    """Does a classifier change its mind when only a pronoun or a name changes?

    Args:
        classifier: a fitted `Classifier`, a run or its folder, any scikit-learn classifier of texts; or a list of them,
            several trainings of the same: then the interval counts how much trainings differ.
        suite: pronouns, names, nouns; winogender, winobias (from POCKETBERT_DATA); own, the sentences of `texts` or of
            the run's test split; a file with the columns id, group, text[, text2], template, expected; a `Suite`.
        compare: the pairs of groups to compare, such as ["she-he"]; None: those of the suite.
        label: whose probability is looked at; None: the last one of the classifier's labels.
        margin: mean changes that are shown to be smaller are called equivalent.
        texts: for suite own: a list of texts, or of pairs of texts.
        small: a few items per template: seconds instead of minutes with a large model.
        tick: hears how many trainings have answered.
    """
    began = time.perf_counter()
    if not 0 < margin < 1:
        raise UserError(f"margin: {margin!r} is no share between 0 and 1; two points are 0.02")
    models = as_predictors(classifier)
    first = models[0]
    made = make_suite(suite, first, texts=texts, small=small)
    made = made if compare is None else made.only(compare)
    if made.pair != first.pair:
        kinds = ("pairs of texts", "single texts")
        raise UserError(
            f"suite {made.name} has {kinds[not made.pair]}, but this classifier reads {kinds[not first.pair]}; "
            "use another suite"
        )
    if label is not None and label not in first.labels:
        raise UserError(f"label '{label}' is not one of this classifier's: {', '.join(first.labels)}")
    place = len(first.labels) - 1 if label is None else first.labels.index(label)
    answers = Answers(models, made, tick)
    measured = Measured(answers, made, place, margin)
    return measured.result(time.perf_counter() - began)


def make_suite(
    suite: str | os.PathLike[str] | Suite, model: Predictor, *, texts: Any = None, small: bool = False
) -> Suite:
    """A suite by name, from a file, or as it is."""
    if isinstance(suite, Suite):
        return suite
    name = os.fspath(suite)
    if texts is not None and name != OWN:
        raise UserError(f"texts are for suite own; suite {name} has its own")
    if name in BUILT_IN:
        return BUILT_IN[name](pair=model.pair, small=small)
    if name in DATA_SUITES:
        return DATA_SUITES[name]()
    if name == OWN:
        split = model.own_split() if texts is None else _split(texts, model.pair)
        return own_texts(split, model.labels)
    if Path(name).is_file():
        return read_suite(Path(name))
    known = ", ".join([*BUILT_IN, OWN, *DATA_SUITES])
    raise UserError(f"suite '{name}': no such file, and no suite is called so; there are {known}")


def _split(texts: Any, pair: bool) -> Split:
    if isinstance(texts, Split):
        return texts
    if pair:
        return Split([first for first, _ in texts], [second for _, second in texts], None)
    return Split([str(text) for text in texts], None, None)


class Answers:
    """What every training says of every distinct text, once."""

    def __init__(self, models: Sequence[Predictor], suite: Suite, tick: Callable[[int], None] | None) -> None:
        self.labels = models[0].labels
        places: dict[Texts, int] = {}
        for item in suite.items:
            for texts in item.texts.values():
                places.setdefault(texts, len(places))
        self.places = places
        found = []
        for number, model in enumerate(models, start=1):
            found.append(model.predict(list(places)))
            if tick is not None:
                tick(number)
        self.probabilities = np.stack(found)  # (trainings, texts, labels)
        self.decisions = self.probabilities.argmax(axis=2)

    def rows(self, items: Sequence[Item], group: str) -> np.ndarray:
        return np.array([self.places[item.texts[group]] for item in items], dtype=np.int64)


class Measured:
    """One suite's comparisons."""

    def __init__(self, answers: Answers, suite: Suite, label: int, margin: float) -> None:
        self.answers, self.suite, self.label, self.margin = answers, suite, label, margin
        self.trainings = len(answers.probabilities)

    def result(self, elapsed: float) -> AuditResult:
        suite, labels = self.suite, self.answers.labels
        asked = [swap for swap in suite.comparisons if suite.of(swap)]
        if not asked:
            raise UserError(
                f"suite {suite.name}: no item has both sides of {', '.join(s.name for s in suite.comparisons)}"
            )
        level = LEVEL / len(asked)
        comparisons = [self._compare(swap, level) for swap in asked]
        controls = {swap.name: self._compare(swap, LEVEL) for swap in suite.controls if suite.of(swap)}
        corrected = holm([one.p for one in comparisons])
        finished = []
        for swap, one, p in zip(asked, comparisons, corrected, strict=True):
            control = controls.get(swap.control or "")
            flagged = p < LEVEL and one.templates >= FEWEST
            one = replace(one, p_corrected=p, flagged=flagged, control=None if control is None else swap.control)
            if control is not None:
                p_control = self._beside(swap, next(c for c in suite.controls if c.name == swap.control))
                one = replace(one, p_control=p_control, exceeds_control=p_control < LEVEL)
            told = wording.sentence(one, labels[self.label], self.margin, control, self.trainings)
            finished.append(replace(one, sentence=told))
        overall = wording.summary(finished, controls, self.margin, self.trainings)
        notes = list(suite.notes)
        if not any(one.accuracy for one in finished) and any(item.expected for item in suite.items):
            notes.append("the suite's right labels are none of this classifier's: no accuracy by group")
        if len(labels) > 2:
            notes.append(
                f"{len(labels)} labels: changes are of the probability of {labels[self.label]} (another: label=…); "
                "changes_by_label has those of all"
            )
        return AuditResult(
            suite=suite.name,
            label=labels[self.label],
            labels=labels,
            trainings=self.trainings,
            items=len(suite.items),
            pairs=sum(one.n for one in finished),
            margin=self.margin,
            comparisons=tuple(finished),
            controls=tuple(controls.values()),
            breakdowns=tuple(self._breakdowns(asked)),
            worst=tuple(self._worst(asked)),
            sentences=(*overall, *(one.sentence for one in finished)),
            notes=tuple(notes),
            elapsed=elapsed,
        )

    def changes(self, swap: Swap, items: Sequence[Item]) -> np.ndarray:
        """(trainings, pairs, labels)"""
        first, second = self.answers.rows(items, swap.first), self.answers.rows(items, swap.second)
        return self.answers.probabilities[:, first] - self.answers.probabilities[:, second]

    def _compare(self, swap: Swap, level: float) -> ChangeResult:
        items = self.suite.of(swap)
        templates, words = number_names([item.template for item in items]), number_words(items)
        changes = self.changes(swap, items)
        found = measure_change(changes[..., self.label], templates, words, margin=self.margin, level=level)
        rate, low, high = share_interval(self.flips(swap, items), templates)
        accuracy, difference = self._accuracy(swap, items)
        return ChangeResult(
            pair=swap.name,
            n=found.pairs,
            templates=found.templates,
            mean_change=found.mean,
            low=found.low,
            high=found.high,
            absolute_change=found.absolute,
            flip_rate=rate,
            flip_low=low,
            flip_high=high,
            p=found.p_value,
            p_permutation=found.permutation_p_value,
            p_corrected=found.p_value,
            flagged=found.p_value < LEVEL and found.templates >= FEWEST,
            p_equivalence=found.equivalence_p_value,
            equivalent=found.equivalence_p_value < LEVEL and found.templates >= FEWEST,
            detectable=found.detectable,
            changes_by_label=dict(zip(self.answers.labels, changes.mean(axis=(0, 1)).tolist(), strict=True)),
            accuracy=accuracy,
            accuracy_change=difference[0],
            accuracy_low=difference[1],
            accuracy_high=difference[2],
        )

    def flips(self, swap: Swap, items: Sequence[Item]) -> np.ndarray:
        first, second = self.answers.rows(items, swap.first), self.answers.rows(items, swap.second)
        flips: np.ndarray = self.answers.decisions[:, first] != self.answers.decisions[:, second]
        return flips

    def _accuracy(
        self, swap: Swap, items: Sequence[Item]
    ) -> tuple[dict[str, float], tuple[float | None, float | None, float | None]]:
        """By group, and the difference; nothing where the right labels are not known."""
        right = {item.id: _right_labels(item.expected, self.answers.labels) for item in items}
        known = [item for item in items if right[item.id]]
        if not known:
            return {}, (None, None, None)
        correct = {}
        for group in (swap.first, swap.second):
            said = self.answers.decisions[:, self.answers.rows(known, group)]
            allowed = np.zeros((len(known), len(self.answers.labels)), dtype=bool)
            for row, item in enumerate(known):
                allowed[row, list(right[item.id])] = True
            correct[group] = allowed[np.arange(len(known)), said].astype(np.float64)
        found = measure_change(
            correct[swap.first] - correct[swap.second],
            number_names([item.template for item in known]),
            number_words(known),
        )
        shares = {group: float(values.mean()) for group, values in correct.items()}
        return shares, (found.mean, found.low, found.high)

    def _beside(self, swap: Swap, control: Swap) -> float:
        """p-value of "the swap moves probabilities no more than its control", signs aside."""
        means, noise = [], []
        for one in (swap, control):
            items = self.suite.of(one)
            values = np.abs(self.changes(one, items)[..., self.label])
            means.append(float(values.mean()))
            noise.append(change_noise(values, number_names([item.template for item in items]), number_words(items))[0])
        return one_sided_p_value(means[0] - means[1], ((*noise[0], *noise[1]),))

    def _breakdowns(self, asked: Sequence[Swap]) -> list[Breakdown]:
        found = []
        for swap, tag in itertools.product(asked, self.suite.breakdowns):
            items = [item for item in self.suite.of(swap) if tag in item.tags]
            values = list(dict.fromkeys(item.tags[tag] for item in items))
            lines = [self._breakdown(swap, tag, value, items) for value in values]
            corrected = holm([line.p for line in lines])
            found += [
                replace(line, p_corrected=p, flagged=p < LEVEL and line.templates >= FEWEST)
                for line, p in zip(lines, corrected, strict=True)
            ]
        return found

    def _breakdown(self, swap: Swap, tag: str, value: str, items: Sequence[Item]) -> Breakdown:
        own = [item for item in items if item.tags[tag] == value]
        numbers = number_names([item.template for item in own])
        change = measure_change(self.changes(swap, own)[..., self.label], numbers)
        return Breakdown(
            tag=tag,
            value=value,
            pair=swap.name,
            n=change.pairs,
            templates=change.templates,
            mean_change=change.mean,
            low=change.low,
            high=change.high,
            flip_rate=float(self.flips(swap, own).mean()),
            p=change.p_value,
            p_corrected=change.p_value,
            flagged=False,
        )

    def _worst(self, asked: Sequence[Swap]) -> list[WorstPair]:
        """The pairs with the largest mean change; one per template and comparison, or they would be all alike."""
        best: dict[tuple[str, str], tuple[float, Swap, Item, int]] = {}
        for swap in asked:
            items = self.suite.of(swap)
            changes = self.changes(swap, items)[..., self.label].mean(axis=0)
            flips = self.flips(swap, items).sum(axis=0)
            for item, change, flipped in zip(items, changes.tolist(), flips.tolist(), strict=True):
                key = (item.template, swap.name)
                if key not in best or abs(change) > abs(best[key][0]):
                    best[key] = (change, swap, item, flipped)
        worst = sorted(best.values(), key=lambda one: -abs(one[0]))[:WORST]
        probabilities = self.answers.probabilities[..., self.label].mean(axis=0)
        return [
            WorstPair(
                pair=swap.name,
                first_text=item.texts[swap.first],
                second_text=item.texts[swap.second],
                first_probability=float(probabilities[self.answers.places[item.texts[swap.first]]]),
                second_probability=float(probabilities[self.answers.places[item.texts[swap.second]]]),
                change=change,
                flips=f"{flipped} of {self.trainings}",
            )
            for change, swap, item, flipped in worst
        ]


def number_names(names: Sequence[str]) -> np.ndarray:
    """Equal names by equal numbers."""
    return np.unique(np.array(names), return_inverse=True)[1]


def number_words(items: Sequence[Item]) -> np.ndarray | None:
    """The number of each item's word; None where words are not drawn from a list."""
    words = [item.word for item in items]
    if any(word is None for word in words) or len(set(words)) < 2:
        return None
    return number_names([str(word) for word in words])


def _right_labels(expected: str | None, labels: Sequence[str]) -> set[int]:
    """The labels that would be right; none where they are not known."""
    if expected is None:
        return set()
    if expected in labels:
        return {labels.index(expected)}
    small = [label.lower() for label in labels]
    if expected == "not_entailment":
        found = {place for place, label in enumerate(small) if label in SYNONYMS["entailment"]}
        return set(range(len(labels))) - found if found else set()
    return {place for place, label in enumerate(small) if label in SYNONYMS.get(expected, ())}
