"""`pb.Classifier`: any method on any model as a scikit-learn estimator; texts or (text, text) pairs in, labels out.

The constructor only stores, as scikit-learn asks: `clone`, `get_params`, `GridSearchCV` and `Pipeline` rely on it.
Everything is checked and resolved in `fit`, which plans and trains as a run does; `save` makes a run of it.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pocketbert.classifier_run import FitRecord, load_fit, save_fit
from pocketbert.config import HEADS
from pocketbert.errors import UserError
from pocketbert.export import FORMATS, Exported, export_fitted
from pocketbert.methods import DEFAULT, DataSize, Method, get_method
from pocketbert.progress import training_progress
from pocketbert.runs import load_start
from pocketbert.start import Start
from pocketbert.tasks import Check, Split, Task, cut_split
from pocketbert.train import plan_run
from pocketbert.training.machine import computing, forget_peak_memory
from pocketbert.training.settings import SCHEDULES, TrainingSettings
from pocketbert.values import held

INSIDE = "options__"
TASK = "texts"  # what a classifier's task is called in messages, and in the folder that `save` writes
HELD_OUT = 0.1  # share of the training texts on which epoch and rate are chosen


class Classifier(ClassifierMixin, BaseEstimator):
    """A text classifier.

    Args:
        model: a name that `pocketbert models` lists, a folder, or `owner/model` on the Hub; None: the best available.
        method: what `pocketbert methods` lists.
        start: the folder of a finished run to start from, instead of a model.
        learning_rate: a number, or a list to choose from; None: derived from the model's size.
        options: what only this method reads, by name, such as {"vocabulary_size": 5_000} for scratch.
        progress: show how training goes, on standard error. None: in a terminal and in a notebook; False: never; True:
            always, in lines where nothing can be drawn.

    The other arguments are settings that most methods read; a method that does not read one ignores it, so that methods
    can be compared by changing `method` alone:

        epochs, batch_size, max_length: how often texts are read; how many at once; in tokens, longer ones are cut.
        pooling, head: pooler, cls or mean (None: the model's own); linear, two-layer or bilstm.
        dropout, weight_decay, warmup, schedule, clip: of the optimiser, as `pocketbert train --help` says.
        class_weights: weigh each class by the inverse of its share.
        patience: stop after so many epochs that did not improve; 0: never.
        keep: which epoch's weights: "best" (the highest dev score) or "last"; None: the method's own.
        device, precision, threads: the machine; None: derived.
        augment: "pronouns,names": also train on the other side of each swap.
        group_by_length, only_cls: speed; results do not depend on the second.

    `options` can be searched like the rest: `set_params(options__vocabulary_size=5_000)`. Randomness comes from `seed`
    alone. In several processes (`cross_val_score(…, n_jobs=2)`), `threads=1` keeps them from competing for cores.

    After `fit`: `classes_`; `pair_`: learnt from pairs?; `best_`: the learning_rate and epoch that were kept, and their
    dev_accuracy (empty for a method that has none); `history_`: one dict an epoch and rate; `rows_`: how many texts
    were trained on ("train") and chosen on ("dev"); `settings_`: the settings with everything derived filled in;
    `model_`: the model's name; `fitted_`: what classifies; `record_`: what `save` writes beside it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        method: str = DEFAULT,
        *,
        start: str | os.PathLike[str] | None = None,
        learning_rate: float | Sequence[float] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        max_length: int = 128,
        pooling: str | None = None,
        head: str = HEADS[0],
        dropout: float | None = None,
        weight_decay: float = 0.01,
        warmup: float = 0.1,
        schedule: str = SCHEDULES[0],
        clip: float = 1.0,
        class_weights: bool = False,
        patience: int = 0,
        keep: str | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str | None = None,
        threads: int | None = None,
        group_by_length: bool = True,
        only_cls: bool = True,
        augment: str | None = None,
        options: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model, self.method, self.start, self.options, self.progress = model, method, start, options, progress
        self.learning_rate, self.epochs, self.batch_size = learning_rate, epochs, batch_size
        self.max_length, self.pooling, self.head, self.dropout = max_length, pooling, head, dropout
        self.weight_decay, self.warmup, self.schedule, self.clip = weight_decay, warmup, schedule, clip
        self.class_weights, self.patience, self.keep = class_weights, patience, keep
        self.seed, self.device, self.precision, self.threads = seed, device, precision, threads
        self.group_by_length, self.only_cls = group_by_length, only_cls
        self.augment = augment

    def fit(self, X: Any, y: Any, dev: tuple[Any, Any] | None = None) -> "Classifier":
        """Learn from texts, or (text, text) pairs, and their labels.

        Epoch and learning rate are chosen on `dev`, a pair (X, y). Without one, a tenth of X is held out for that, and
        only when there is something to choose: with one epoch (or the last: `keep`) and one rate, everything is trained
        on.
        """
        held(self.method, str, "method")
        if self.model is not None:
            held(os.fspath(self.model) if isinstance(self.model, os.PathLike) else self.model, str, "model")
        classes, targets = np.unique(read_labels(y), return_inverse=True)
        if len(classes) < 2:
            raise UserError(f"y has one class only ({classes[0]!r}); a classifier needs examples of at least two")
        train = _labelled(read_texts(X), targets)
        given = None if dev is None else self._given_dev(dev, train, classes)
        kind = get_method(self.method)
        start = self._start(kind)
        size = DataSize(len(train), len(classes))
        settings = kind.resolve(kind.read(self._told(kind)), start, size)
        if given is None and settings.choices > 1:
            train, given = _hold_out(train, settings.seed)
        splits = {"train": train} if given is None else {"train": train, "dev": given}
        task = Task(TASK, tuple(str(label) for label in classes), splits, pair=train.second_texts is not None)
        plan = plan_run(task, self.method, start=start, settings=settings, check=Check(TASK, {}), allow_overlap=True)
        began = time.perf_counter()
        forget_peak_memory()
        shown = held(self.progress, bool | None, "progress")
        with computing(settings.threads), training_progress(shown) as report:
            trained = kind.fit(replace(plan.job, report=report))
        self.classes_ = classes
        self.pair_ = train.second_texts is not None
        self.best_ = trained.best
        self.history_ = [record.to_dict() for record in trained.history]
        self.settings_ = settings
        self.model_ = None if start is None else start.name
        self.fitted_ = trained.fitted
        self.record_ = FitRecord.of(plan, trained, classes, time.perf_counter() - began)
        self.rows_ = self.record_.rows
        return self

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write what was fitted as a run's folder, which `from_run` and the commands predict, evaluate and export read.

        Where the encoder did not train (as in "frozen"), the folder names the model and does not hold it.
        """
        check_is_fitted(self)
        save_fit(self.fitted_, self.record_, folder, overwrite=overwrite)

    @classmethod
    def from_run(cls, folder: str | os.PathLike[str]) -> "Classifier":
        """A fitted classifier from a run's folder: one that `save` wrote, `pocketbert train`, or a study (its final/).

        Labels are of the type that `fit` was given; of a run that was trained on files, they are texts.
        """
        fitted, record = load_fit(folder)
        settings, metadata = record.settings, record.metadata
        told = {field.name: getattr(settings, field.name) for field in fields(settings)}
        common = {field.name for field in fields(TrainingSettings)}
        options = {name: value for name, value in told.items() if name not in common and value is not None}
        made = cls(
            None if record.start else metadata["model"],
            metadata["method"],
            start=record.start,
            options=options or None,
            **{name: value for name, value in told.items() if name in common},
        )
        made.classes_, made.pair_ = record.classes, metadata["pair"]
        made.best_, made.history_ = record.metrics["best"], list(record.metrics["history"])
        made.rows_, made.settings_, made.model_ = record.rows, settings, record.start or metadata["model"]
        made.fitted_, made.record_ = fitted, record
        return made

    def export(self, folder: str | os.PathLike[str], *, format: str = FORMATS[0], overwrite: bool = False) -> Exported:
        """Write what was fitted for others: for `transformers`, or as "onnx", as `export_run` does."""
        check_is_fitted(self)
        labels = [str(label) for label in self.classes_]
        what = f"method '{self.record_.metadata['method']}'"
        return export_fitted(self.fitted_, labels, folder, what=what, format=format, overwrite=overwrite)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(texts, classes): a probability for each label of `classes_`; rows sum to one."""
        check_is_fitted(self)
        texts = read_texts(X)
        if (texts.second_texts is not None) != self.pair_:
            learnt, found = ("pairs", "single texts") if self.pair_ else ("single texts", "pairs")
            raise UserError(f"X holds {found}, but this classifier learnt from {learnt}; give it {learnt}")
        with computing(self.settings_.threads):
            return self.fitted_.predict(texts).probabilities

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of each text, as it was given to `fit`."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on these texts; labels are read as in `fit`."""
        return super().score(X, read_labels(y), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False  # of numbers, as the tag is meant; two columns of text are pairs
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments; `deep`: also each of `options`, as options__NAME."""
        options = self.options if deep and isinstance(self.options, Mapping) else {}
        inside = {f"{INSIDE}{name}": value for name, value in options.items()}
        return {**super().get_params(deep=deep), **inside}

    def set_params(self, **params: Any) -> "Classifier":
        """Change arguments; options__NAME changes one of `options`."""
        inside = {name.removeprefix(INSIDE): value for name, value in params.items() if name.startswith(INSIDE)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(INSIDE)})
        if inside:
            self.options = {**(self.options or {}), **inside}
        return self

    def _start(self, kind: Method) -> Start | None:
        if self.model is not None and self.start is not None:
            raise UserError("model and start: both say what to start from; give one of them")
        given = self.model or self.start
        return load_start(given or kind.usual_model() or "") if kind.needs_model else None

    def _told(self, kind: Method) -> dict[str, Any]:
        """The settings that this method reads, and all options, which it must."""
        common = {field.name: _plain(getattr(self, field.name)) for field in fields(TrainingSettings)}
        TrainingSettings(**common)  # wrong is wrong, read or not
        told = {name: value for name, value in common.items() if kind.reads(name)}
        options = held(self.options, dict[str, Any] | None, "options") or {}
        twice = sorted(set(options) & set(common))
        if twice:
            raise UserError(f"options: {twice[0]} is an argument of its own; give it there")
        return {**told, **{name: _plain(value) for name, value in options.items()}}

    def _given_dev(self, dev: tuple[Any, Any], train: Split, classes: np.ndarray) -> Split:
        if not isinstance(dev, tuple | list) or len(dev) != 2:
            raise UserError("dev: expected a pair of texts and labels: fit(X, y, dev=(texts, labels))")
        texts = read_texts(dev[0], "X of dev")
        if (texts.second_texts is None) != (train.second_texts is None):
            raise UserError("dev: one of X and dev holds pairs and the other single texts; give both the same kind")
        labels = read_labels(dev[1], "y of dev").tolist()
        place = {label: index for index, label in enumerate(classes.tolist())}
        unknown = [label for label in labels if label not in place]
        if unknown:
            known = ", ".join(map(repr, place))
            raise UserError(f"dev: label {unknown[0]!r} is not among the training labels, {known}; leave its rows out")
        return _labelled(texts, np.array([place[label] for label in labels]), "dev")


def _labelled(texts: Split, targets: np.ndarray, what: str = "X") -> Split:
    if len(texts) != len(targets):
        raise UserError(f"{what}: {len(texts)} texts but {len(targets)} labels; each text needs one label")
    return Split(texts.texts, texts.second_texts, targets.astype(np.int64))


def _hold_out(train: Split, seed: int) -> tuple[Split, Split]:
    """Stratified, and no text on both sides."""
    parts = cut_split(train, {"dev": HELD_OUT}, seed=seed)
    if not len(parts["dev"]) or len(set(parts["train"].labels)) < 2:  # type: ignore[arg-type]
        raise UserError(
            f"{len(train)} texts are too few to hold some out and choose an epoch or a learning rate on them; "
            f"give dev=(texts, labels), or one learning rate and epochs=1"
        )
    return parts["train"], parts["dev"]


# -- reading what people pass ----------------------------------------------------------------------------------------


def read_texts(X: Any, what: str = "X") -> Split:
    """Texts or pairs from a list, an array, or whatever becomes one; every entry is looked at."""
    array = _array(X, what)
    if not array.size:
        raise UserError(f"{what} is empty: it has the shape {array.shape}; give at least one text")
    if array.dtype.kind not in "OUT":
        raise UserError(f"{what} holds numbers ({array.dtype}), not text; give a list of texts")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != 2):
        raise UserError(
            f"{what} has the shape {array.shape}; texts have one dimension (take one column: X[:, 0]), "
            f"pairs have two columns"
        )
    texts: list[str] = []
    second_texts: list[str] = []
    for row, entry in enumerate(array):
        pair = isinstance(entry, tuple | list | np.ndarray)
        if pair and len(entry) != 2:
            raise UserError(f"{what}: row {row} holds {len(entry)} values; a pair is two texts")
        if row and pair != bool(second_texts):
            raise UserError(
                f"{what}: row {row} is {'a pair' if pair else 'a single text'} and row 0 is not; "
                f"give single texts or pairs, not both"
            )
        for value, into in zip(entry if pair else (entry,), (texts, second_texts), strict=False):
            if not isinstance(value, str):
                shown = "missing" if _missing(value) else f"{type(value).__name__} {value!r:.40}"
                raise UserError(f"{what}: row {row} is not text: it is {shown}; drop such rows, or make them text")
            into.append(str(value))  # numpy's own strings become plain ones
    return Split(texts, second_texts or None, None)


def read_labels(y: Any, what: str = "y") -> np.ndarray:
    """One label per row, all of one kind: text, whole numbers or booleans."""
    if y is None:
        raise UserError(f"Classifier requires y to be passed, but the target {what} is None; give each text a label")
    try:
        array = column_or_1d(_array(y, what), warn=True)
    except ValueError as error:
        raise UserError(f"{what}: expected one label for each row: {error}") from None
    if not len(array):
        raise UserError(f"{what} is empty: it has 0 labels; give each text one")
    for row, label in enumerate(array.tolist()):
        if _missing(label) or label in (math.inf, -math.inf):
            raise UserError(f"{what}: row {row} has no label: it is {label!r}; drop the rows without one")
    if array.dtype.kind == "O":
        words = [isinstance(label, str) for label in array]
        if any(words) and not all(words):
            one, other = array[0], array[words.index(not words[0])]
            raise UserError(f"{what} mixes text and other labels, as {one!r} and {other!r}; make them all text")
    try:
        if array.dtype.kind == "O" and (not isinstance(y, np.ndarray) or not isinstance(array[0], str)):
            array = column_or_1d(np.array(array.tolist()))  # numbers, or a list's texts, in numpy's own type
        check_classification_targets(array)
    except ValueError as error:
        raise UserError(f"{what}: {error}") from None
    return array


def _array(values: Any, what: str) -> np.ndarray:
    """A list entry by entry, so that numpy does not make text of numbers beside it; else as numpy reads it."""
    if isinstance(values, str | bytes):
        raise UserError(f"{what} is one text; put it in a list: [text]")
    if issparse(values):
        raise UserError(f"{what} is a sparse matrix; sparse input is not supported, texts are: give a list of them")
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if isinstance(values, Mapping | Set) or not hasattr(values, "__len__"):
        raise UserError(f"{what} is a {type(values).__name__}; expected a list, an array or a column of a table")
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def _missing(value: Any) -> bool:
    """None, NaN, and what pandas writes for them."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _plain(value: Any) -> Any:
    """A setting without numpy: `GridSearchCV` over `np.arange` hands out numpy's numbers."""
    if isinstance(value, np.ndarray | list | tuple):
        return tuple(_plain(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value
