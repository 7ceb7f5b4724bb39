"""From finished runs to the results document, which tables, the report and study.json are made of."""

import itertools
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from pocketbert import __version__, metrics, statistics
from pocketbert.methods import get_method
from pocketbert.report.document import (
    Bin,
    Chosen,
    ClassScores,
    ComparisonResult,
    Cost,
    Curve,
    Document,
    Failure,
    Machine,
    Mistake,
    Recommended,
    RowResults,
    Score,
    Spread,
    Suspect,
    TaskSummary,
)
from pocketbert.study.advice import advice
from pocketbert.study.heat_maps import heat_maps
from pocketbert.study.learning_curves import learning_curve
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.scored import ScoredRow, read_row
from pocketbert.study.store import Store
from pocketbert.study.suspect_labels import SuspectLabel, suspect_labels
from pocketbert.study.verdict import recommendation, verdict
from pocketbert.study.wording import comparison_in_words
from pocketbert.tasks import Task

RULE = (
    "the epoch and the learning rate with the best dev accuracy (ties: the earlier epoch, then the rate listed first); "
    "what is tested is scored once, after that choice"
)
MISTAKES = 5  # of each row, that are shown
SUSPECTS = 20  # of each task, that are shown
VERSIONS = ("torch", "tokenizers", "safetensors", "numpy", "scipy", "scikit-learn")


class Results:
    """What the finished runs of a plan say, task by task."""

    def __init__(self, plan: Plan, store: Store, metric: str, margin: float) -> None:
        self.plan, self.metric, self.margin = plan, metric, margin
        read = [read_row(plan, store, number) for number in range(len(plan.rows))]
        self.scored = {task: [one for one in read if one is not None and one.row.task == task] for task in plan.tasks}
        self.recommended = {task: self._recommend(task) for task in plan.tasks}
        self.suspects = {task: self._suspects(task) for task in plan.tasks}
        self.curves = {
            task: [
                curve
                for one in self.scored[task]
                if one.row.curve and (curve := learning_curve(plan, store, one, metric)) is not None
            ]
            for task in plan.tasks
        }
        self._advice: dict[str, list[str]] = {}

    def contenders(self, task: str) -> dict[str, ScoredRow]:
        """The rows that read texts, and learnt something from them."""
        return {one.row.name: one for one in self.scored[task] if get_method(one.row.method).reads_texts and one.learnt}

    def _recommend(self, task: str) -> "tuple[statistics.Recommendation, statistics.Outcomes, list[str]] | None":
        """The row to use, what choosing so predicts of rows that had no part in the choice, and these choices."""
        rows = {name: one.outcomes for name, one in self.contenders(task).items()}
        if not rows:
            return None
        costs = {row.name: self.plan.operations[n] for n, row in enumerate(self.plan.rows) if row.task == task}

        def choose(some: Mapping[str, statistics.Outcomes]) -> statistics.Recommendation:
            return statistics.recommend(some, costs, self.margin, self.metric)

        nested, chosen = statistics.nested_outcomes(rows, lambda some: choose(some).row)
        return choose(rows), nested, chosen

    def _suspects(self, task: str) -> list[SuspectLabel]:
        """From probabilities that no row's own model gave: folds have them for every row."""
        rows = self.contenders(task)
        if task not in self.plan.folds or not rows:
            return []
        labels = self.plan.folds[task].rows.labels
        assert labels is not None
        return suspect_labels(np.stack([one.probabilities.mean(axis=0) for one in rows.values()]), labels)

    def document(
        self,
        failures: Sequence[tuple[PlannedRun, str]],
        *,
        name: str,
        preset: str | None,
        again: str | None,
        workers: int | str,
        final: Mapping[str, str],
        estimated_seconds: float | None = None,
        elapsed: float | None = None,
    ) -> Document:
        """Everything, as it is written. `final`: by task, the folder of the recommended model."""
        plan = self.plan
        rows: list[RowResults] = []
        comparisons: list[ComparisonResult] = []
        verdicts: list[str] = []
        recommended: list[Recommended] = []
        several = len(plan.tasks) > 1
        for task in plan.tasks:
            of_task = [_row(one, plan.tasks[task]) for one in self.scored[task]]
            compared = self._compare(task)
            lost = sum(run.task == task for run, _ in failures)
            if lost:
                verdicts.append(f"On {task}, {lost} runs failed; they are not in these numbers.")
            if of_task:
                first, *others = verdict(of_task, compared, self.metric)
                verdicts += [f"On {task}, {first}" if several else first, *others]
            else:
                verdicts.append(f"{task}: no row is finished yet.")
            found = self._recommended(task, of_task, final.get(task))
            if found is not None:
                recommended.append(found)
                verdicts.append(found.sentence)
            rows += of_task
            comparisons += compared
            if task not in self._advice:
                summary = self._summary(plan.tasks[task])
                self._advice[task] = advice(of_task, compared, found, self.curves[task], summary, plan.tasks[task])
        return Document(
            pocketbert=__version__,
            name=name,
            preset=preset,
            again=again,
            workers=workers,
            seconds=sum(len(row.seeds) * row.cost.seconds for row in rows),
            verdicts=tuple(verdicts),
            rule=RULE,
            metric=self.metric,
            tasks=tuple(self._summary(task) for task in plan.tasks.values()),
            rows=tuple(rows),
            comparisons=tuple(comparisons),
            mistakes=tuple(
                mistake
                for task, scored in self.scored.items()
                for one in scored
                if not one.row.baseline
                for mistake in _mistakes(one, plan.tasks[task].labels)
            ),
            recommended=tuple(recommended),
            suspects=tuple(one for task in plan.tasks for one in self.suspect_rows(task)[:SUSPECTS]),
            failures=tuple(Failure(run.folder, error) for run, error in failures),
            notes=tuple(plan.notes),
            versions={"python": platform.python_version()} | {name: metadata.version(name) for name in VERSIONS},
            machine=Machine(platform.system(), platform.machine(), os.cpu_count()),
            heat_maps=tuple(one for task in plan.tasks for row in self.scored[task] for one in heat_maps(row)),
            learning_curves=tuple(curve for task in plan.tasks for curve in self.curves[task]),
            advice=tuple(
                f"{task}: {sentence}" if several else sentence for task in plan.tasks for sentence in self._advice[task]
            ),
            estimated_seconds=estimated_seconds,
            elapsed=elapsed,
        )

    def suspect_rows(self, task: str) -> list[Suspect]:
        """Rows whose label is probably wrong, the most suspect first, with their texts."""
        names, models = self.plan.tasks[task].labels, len(self.contenders(task))
        found = []
        for one in self.suspects[task]:
            rows = self.plan.folds[task].rows
            found.append(
                Suspect(
                    task=task,
                    number=one.row + 1 if rows.numbers is None else int(rows.numbers[one.row]),
                    text=rows.texts[one.row],
                    second_text=None if rows.second_texts is None else rows.second_texts[one.row],
                    label=names[one.label],
                    predicted=names[one.predicted],
                    self_confidence=one.self_confidence,
                    agreeing=f"{one.agreeing} of {models}",
                )
            )
        return found

    def _recommended(self, task: str, rows: Sequence[RowResults], final: str | None) -> Recommended | None:
        found = self.recommended[task]
        if found is None:
            return None
        choice, nested, chosen = found
        promised = _score(nested, self.metric)
        row = next(row for row in rows if row.name == choice.row)
        return Recommended(
            task=task,
            row=choice.row,
            best=choice.best,
            margin=choice.margin,
            p_value=choice.p_values.get(choice.row) if choice.cheaper else None,
            promised=promised,
            chosen=tuple(chosen),
            final=final,
            sentence=recommendation(row, choice, promised, self.metric),
        )

    def _compare(self, task: str) -> list[ComparisonResult]:
        """Two families, each corrected for its own size: contenders among themselves, and each against guessing.

        Otherwise the price of asking "is it better than a coin?" would be paid by the questions a person has.
        """
        # Nothing beats a row that learnt nothing: its trainings failed, not its method.
        rows = {one.row.name: one.outcomes for one in self.scored[task] if one.learnt}
        guesses = [one.row.name for one in self.scored[task] if not get_method(one.row.method).reads_texts]
        contenders = [name for name in rows if name not in guesses]
        families = [list(itertools.combinations(contenders, 2)), list(itertools.product(contenders, guesses))]
        return [
            _comparison(task, *names, found, rows)
            for pairs in families
            for names, found in statistics.compare_all(rows, pairs, self.metric).items()
        ]

    def _summary(self, task: Task) -> TaskSummary:
        """What was learnt from and scored on, with everything there is to say about the data."""
        plan = self.plan
        checks = [check for row, check in zip(plan.rows, plan.checks, strict=True) if row.task == task.name]
        exact = [check for check in checks if any(split.tokens["unit"] == "tokens" for split in check.splits.values())]
        first, folds = (exact or checks)[0], plan.folds.get(task.name)
        return TaskSummary(
            name=task.name,
            labels=task.labels,
            pair=task.pair,
            rows={name: len(split) for name, split in task.splits.items()},
            balance={name: split.balance for name, split in first.splits.items() if split.labelled},
            tokens={name: split.tokens for name, split in first.splits.items()},
            refused={name: split.reason for name, split in task.splits.items() if not split.labelled},
            scored=task.scored_name,
            licence=task.licence,
            origin=task.origin,
            notes=tuple(task.notes),
            warnings=tuple(dict.fromkeys(warning for check in exact or checks for warning in check.warnings)),
            folds=0 if folds is None else folds.count,
            clusters=0 if folds is None else len(np.unique(folds.clusters)),
            suspects=len(self.suspects[task.name]),
        )


def _row(scored: ScoredRow, task: Task) -> RowResults:
    row, runs, results = scored.row, scored.runs, scored.results
    method = get_method(row.method)
    costs = [one["cost"] for one in results]
    labels, draws = scored.outcomes.labels, scored.draws
    matrix = sum(metrics.confusion(labels, one, len(task.labels)) for one in scored.outcomes.predictions)
    classes = zip(task.labels, metrics.per_class(np.asarray(matrix)), strict=True)
    bins = metrics.reliability(np.concatenate(scored.probabilities), np.tile(labels, draws))
    settings = runs[0].settings.to_dict()
    values = tuple(score["accuracy"] for score in scored.scores)

    def spread(name: str) -> Spread:
        return _spread(score[name] for score in scored.scores)

    def mean_cost(name: str) -> float | None:
        return _mean([cost[name] for cost in costs if cost.get(name) is not None])

    return RowResults(
        task=row.task,
        name=row.name,
        model=row.model,
        method=row.method,
        baseline=row.baseline,
        guesses=not method.reads_texts,
        deterministic=not method.seeded,
        seeds=tuple(run.settings.seed for run in runs),
        missing=scored.missing,
        split=task.scored_name,
        accuracy=replace(_score(scored.outcomes, "accuracy"), values=values),
        macro_f1=_score(scored.outcomes, "macro_f1"),
        mcc=_score(scored.outcomes, "mcc"),
        calibration_error=spread("calibration_error"),
        loss=spread("loss"),
        temperature=Spread(_mean(scored.temperatures)),
        dev=None if scored.dev is None else _score(scored.dev, "accuracy"),
        per_class={name: ClassScores(**{**one, "support": one["support"] / draws}) for name, one in classes},
        confusion=tuple(map(tuple, np.asarray(matrix).tolist())),
        reliability=tuple(Bin(one["confidence"], one["accuracy"], one["share"], int(one["rows"])) for one in bins),
        curves=tuple(curve for one in results for curve in _curves(one["history"])),
        chosen=tuple(Chosen(run.settings.seed, **one["best"]) for run, one in zip(runs, results, strict=True)),
        trials=max(one["trials"] for one in results),
        truncated=round(sum(score.get("truncated", 0) for score in scored.scores) / draws),
        cost=Cost(
            seconds=float(np.mean([cost["seconds"] for cost in costs])),
            peak_memory_bytes=max(cost["peak_memory_bytes"] for cost in costs),
            trained_parameters=max(cost["trained_parameters"] for cost in costs),
            examples_per_second=mean_cost("examples_per_second"),
            model_bytes=max(cost.get("model_bytes", 0) for cost in costs),
            seconds_per_1000_texts=mean_cost("seconds_per_1000_texts"),
        ),
        settings={name: value for name, value in settings.items() if name != "seed"},
        folders=tuple(run.folder for run in runs),
        theirs=row.theirs,
        note=row.note,
        collapsed=scored.collapsed,
        undertrained=scored.undertrained,
    )


def _score(outcomes: statistics.Outcomes, metric: str) -> Score:
    return Score(**vars(statistics.estimate(outcomes, metric)))


def _spread(values: Iterable[float]) -> Spread:
    """Mean, and standard deviation over trainings where there are several."""
    known = list(values)
    return Spread(_mean(known), float(np.std(known, ddof=1)) if len(known) > 1 else None)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _curves(history: list[dict[str, Any]]) -> list[Curve]:
    """One curve per seed and rate."""
    records: dict[tuple[int, float], list[dict[str, Any]]] = {}
    for record in history:
        records.setdefault((record["seed"], record["rate"]), []).append(record)
    return [
        Curve(seed, rate, *(tuple(one[key] for one in some) for key in ("epoch", "loss", "dev_accuracy")))
        for (seed, rate), some in records.items()
    ]


def _mistakes(scored: ScoredRow, names: tuple[str, ...]) -> list[Mistake]:
    """The texts a row was most certain about, and wrong: often the label is what is wrong."""
    split, labels, draws = scored.split, scored.outcomes.labels, scored.draws
    pooled = scored.probabilities.mean(axis=0)
    wrong = np.flatnonzero(pooled.argmax(axis=1) != labels)
    worst = wrong[np.argsort(-pooled[wrong].max(axis=1), kind="stable")][:MISTAKES]
    return [
        Mistake(
            task=scored.row.task,
            row=scored.row.name,
            text=split.texts[place],
            second_text=None if split.second_texts is None else split.second_texts[place],
            label=names[labels[place]],
            prediction=names[int(pooled[place].argmax())],
            probability=float(pooled[place].max()),
            wrong=f"{draws - int(scored.outcomes.correct[:, place].sum())} of {draws} trainings that tested it",
        )
        for place in worst.tolist()
    ]


def _comparison(
    task: str, first: str, second: str, found: statistics.Comparison, rows: Mapping[str, statistics.Outcomes]
) -> ComparisonResult:
    """Two rows, the better one first. Two single trainings also have an exact test."""
    if found.effect < 0:
        found = replace(found, effect=-found.effect, low=-found.high, high=-found.low, trainings=found.trainings[::-1])
        first, second = second, first
    assert found.corrected_p_value is not None
    one, two = rows[first], rows[second]
    single = one.draws == two.draws == 1 and one.folds is None
    return ComparisonResult(
        task=task,
        first=first,
        second=second,
        effect=found.effect,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        corrected=found.corrected_p_value,
        significant=found.significant,
        detectable=found.detectable_effect,
        degrees_of_freedom=found.degrees_of_freedom,
        trainings=found.trainings,
        examples=found.examples,
        counts_training_noise=found.counts_training_noise,
        mcnemar=statistics.mcnemar(one.correct[0], two.correct[0]) if single else None,
        sentence=comparison_in_words(first, second, found),
    )
