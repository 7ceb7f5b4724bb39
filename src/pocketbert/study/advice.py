"""What to do next, in sentences: is the simplest method enough, would more data help, do the ends of texts matter?"""

from collections.abc import Sequence

import numpy as np

from pocketbert import statistics
from pocketbert.methods import DataSize, Method, baselines
from pocketbert.report.document import ComparisonResult, LearningCurve, Recommended, RowResults, TaskSummary
from pocketbert.study.learning_curves import LITTLE, best_curve
from pocketbert.study.wording import effect_in_words, points
from pocketbert.tasks import Split, Task
from pocketbert.training.job import Job, JobTask

MANY_CUT = 0.1  # of texts: from here on it is measured whether their ends matter
MOST_ROWS = 3_000  # that this is measured on
WORTH = 0.01  # a point: a gain that is surely above it is worth labelling for


def advice(
    rows: Sequence[RowResults],
    comparisons: Sequence[ComparisonResult],
    recommended: Recommended | None,
    curves: Sequence[LearningCurve],
    summary: TaskSummary,
    task: Task,
) -> list[str]:
    """About one task."""
    found = []
    contenders = [row.name for row in rows if not row.guesses]
    if recommended is not None:
        row = next(row for row in rows if row.name == recommended.row)
        if row.baseline:
            found.append(f"{row.name} is enough here: no BERT is needed.")
    unsure = [one for one in comparisons if not one.significant and {one.first, one.second} <= set(contenders)]
    if unsure:
        closest = min(unsure, key=lambda one: one.detectable)
        found.append(
            f"This file is too small to tell {closest.first} from {closest.second}: only a difference above about "
            f"{points(closest.detectable)} would show."
        )
    own = [one for one in curves if recommended is not None and one.row == recommended.row]
    curve = own[0] if own else best_curve(curves, contenders)
    if curve is not None and curve.low is not None and curve.high is not None and curve.gain is not None:
        if curve.low > WORTH:
            gain = effect_in_words(curve.gain, curve.low, curve.high)
            known = "" if own else ", the best of the rows whose learning curve was drawn,"
            found.append(f"Label more: twice the data would bring {curve.row}{known} about {gain}.")
        elif curve.high < LITTLE:
            found.append(f"More data of this kind would bring little: {curve.row} is near its limit.")
    cut = max((one["truncated_share"] for one in summary.tokens.values() if one["unit"] == "tokens"), default=0.0)
    if cut > MANY_CUT:
        length = max(one["max_length"] for one in summary.tokens.values())
        found.append(_about_the_end(task, cut, int(length)))
    return found


def _about_the_end(task: Task, share: float, max_length: int) -> str:
    """Texts are cut: does what is cut off help? Measured with the method that reads whole texts."""
    effect = gain_of_the_end(task, max_length)
    cut = f"{share:.0%} of the texts are cut at {max_length} tokens"
    if effect is None:
        return f"{cut}; --max-length reads more of them, and takes longer."
    words, name = effect_in_words(effect.effect, effect.low, effect.high), _reads_whole_texts().name
    if effect.low > 0:
        return f"{cut}, and their ends matter: {name} gains {words} by reading them (on a sample). Raise --max-length."
    return f"{cut}; reading their ends gains {name} {words} on a sample: they are not shown to matter."


def _reads_whole_texts() -> Method:
    """The baseline that learns from texts; it has no length at which it cuts them."""
    return next(method for method in baselines().values() if method.reads_texts)


def gain_of_the_end(task: Task, max_length: int, *, seed: int = 0) -> "statistics.Comparison | None":
    """What a model of words gains by reading whole texts, over one that reads about as much as `max_length` tokens."""
    split = next(split for split in (task.splits.get("all"), task.splits.get("train")) if split is not None)
    random = np.random.default_rng(seed)
    whole = split.take(np.sort(random.permutation(len(split))[:MOST_ROWS]))
    assert whole.labels is not None
    words = max(1, round(max_length / 1.3))  # English has about 1.3 tokens per word
    shorter = [" ".join(text.split()[:words]) for text in whole.texts]
    cut = Split(shorter, whole.second_texts, whole.labels)
    part = np.zeros(len(whole), dtype=np.int64)
    for label in np.unique(whole.labels):
        own = random.permutation(np.flatnonzero(whole.labels == label))
        part[own] = np.arange(len(own)) % 2
    method = _reads_whole_texts()
    settings = method.resolve(method.read({"threads": 1}), None, DataSize(len(whole), len(task.labels)))
    said = {}
    for name, texts in (("whole", whole), ("cut", cut)):
        predictions = np.zeros((1, len(whole)), dtype=np.int64)
        for fold in (0, 1):
            train, test = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
            if len(np.unique(whole.labels[train])) < 2:
                return None
            job = Job((JobTask(task.name, task.labels, texts.take(train)),), settings)
            predictions[0, test] = method.fit(job).fitted.predict(texts.take(test)).probabilities.argmax(axis=1)
        said[name] = statistics.Outcomes(predictions, whole.labels, seeded=False)
    return statistics.compare(said["whole"], said["cut"])
