"""Whatever classifies texts, seen alike: labels, one text or two, and probabilities for a list of them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.audits.suites import Texts
from pocketbert.errors import UserError
from pocketbert.runs import Run, load_run
from pocketbert.tasks import Split, read_rows
from pocketbert.tasks.columns import choose_texts
from pocketbert.tasks.load import load_again
from pocketbert.tasks.texts import Texts as FileTexts
from pocketbert.training.machine import computing


@dataclass(frozen=True, eq=False)
class Predictor:
    """One training."""

    labels: tuple[str, ...]
    pair: bool
    predict: Callable[[list[Texts]], np.ndarray]  # (texts, labels)
    run: Run | None = None

    def own_split(self) -> Split:
        """The texts that the run was tested on."""
        source = None if self.run is None else self.run.source
        if source is None:
            raise UserError("suite own: which texts? The classifier does not know its file: give texts (--texts FILE)")
        task = load_again(source)
        return task.split(task.scored_name)


def as_predictors(classifier: Any) -> list[Predictor]:
    """One classifier, or several trainings of the same."""
    if isinstance(classifier, list) and classifier and all(isinstance(one, Predictor) for one in classifier):
        return classifier
    several = list(classifier) if isinstance(classifier, list | tuple) else [classifier]
    if not several:
        raise UserError("no classifier to audit: the list is empty")
    found = [_predictor(one) for one in several]
    for one in found[1:]:
        if one.labels != found[0].labels or one.pair != found[0].pair:
            raise UserError(
                "these are no trainings of one classifier: their labels, or the kind of their texts, differ"
            )
    return found


def _predictor(classifier: Any) -> Predictor:
    if isinstance(classifier, str | os.PathLike):
        classifier = load_run(Path(classifier))
    if isinstance(classifier, Run):
        return _of_run(classifier)
    if not hasattr(classifier, "predict_proba"):
        raise UserError(
            f"cannot audit a {type(classifier).__name__}: give a Classifier, a run, or anything with predict_proba"
        )
    labels = getattr(classifier, "classes_", None)
    if labels is None:
        raise UserError("the classifier is not fitted yet: call fit first")
    pair = bool(getattr(classifier, "pair_", False))

    def predict(texts: list[Texts]) -> np.ndarray:
        given: Sequence[Any] = texts if pair else [text for (text,) in texts]
        return np.asarray(classifier.predict_proba(given), dtype=np.float64)

    record = getattr(classifier, "record_", None)
    return Predictor(tuple(str(label) for label in labels), pair, predict, getattr(record, "run", None))


def _of_run(run: Run) -> Predictor:
    fitted = run.fitted()
    pair = bool(run.metadata["pair"])

    def predict(texts: list[Texts]) -> np.ndarray:
        second = [two for _, two in texts] if pair else None
        with computing(run.settings.threads):
            return fitted.predict(Split([one[0] for one in texts], second, None)).probabilities

    return Predictor(run.labels, pair, predict, run)


def own_split(path: Path, model: Predictor, *, text: str | None, text2: str | None, encoding: str) -> Split:
    """The texts of a file, read as the model's run reads them."""
    rows = read_rows(path, encoding=encoding)
    learnt = {} if model.run is None else model.run.columns
    columns, _ = choose_texts(rows, text, text2, pair=model.pair, learnt=learnt)
    rows = rows.narrow(*columns)
    taken = FileTexts(rows, columns)
    found = [taken.take(place, row) for place, row in rows.places()]
    if not found:
        raise UserError(f"{path}: no rows to audit")
    return Split([one[0] for one in found], [one[1] for one in found] if model.pair else None, None)
