"""The baselines that every table carries: a coin, the most frequent label, and TF-IDF with logistic regression."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from pocketbert.errors import UserError
from pocketbert.files import new_file, write_json
from pocketbert.methods.base import Fitted, Job, Method, Trained, register
from pocketbert.training.settings import Settings
from pocketbert.values import Between, Count, held, read_object


class CoinFile(TypedDict):
    """random.json."""

    labels: Count
    seed: Count


class Coin(Fitted):
    """Probabilities at random, the same ones for the same text and seed."""

    def __init__(self, labels: int, seed: int) -> None:
        self.labels, self.seed = labels, seed

    def probabilities(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> np.ndarray:
        result = np.zeros((len(texts), self.labels))
        for row, text in enumerate(texts):
            both = f"{self.seed}\0{text}\0{seconds[row] if seconds is not None else ''}"
            digest = hashlib.shake_256(both.encode("utf-8", "surrogatepass")).digest(8 * self.labels)
            draws = np.frombuffer(digest, dtype="<u8").astype(np.float64) + 1
            result[row] = draws / draws.sum()
        return result

    def save(self, folder: Path) -> None:
        write_json(folder / "random.json", {"labels": self.labels, "seed": self.seed})


@register
class Random(Method):
    name: ClassVar[str] = "random"
    about: ClassVar[str] = "a label at random: what knowing nothing gives"
    needs_model: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        return Trained(Coin(len(job.labels), job.settings.seed))

    def load(self, folder: Path, labels: tuple[str, ...], settings: Settings, about: dict[str, Any]) -> Fitted:
        path = folder / "random.json"
        content = read_object(path, CoinFile)
        if content["labels"] != len(labels):
            raise UserError(f"{path}: damaged: it has {content['labels']} labels, and the run {len(labels)}")
        return Coin(content["labels"], content["seed"])


class AlwaysFile(TypedDict):
    """majority.json."""

    shares: tuple[Annotated[float, Between(0, 1)], ...]


class Always(Fitted):
    """The same probabilities for every text: the labels' shares in training."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = np.asarray(shares, dtype=np.float64)

    def probabilities(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> np.ndarray:
        return np.tile(self.shares, (len(texts), 1))

    def save(self, folder: Path) -> None:
        write_json(folder / "majority.json", {"shares": self.shares.tolist()})


@register
class Majority(Method):
    name: ClassVar[str] = "majority"
    about: ClassVar[str] = "always the most frequent label of the training texts"
    needs_model: ClassVar[bool] = False
    seeded: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        counts = np.bincount(job.targets, minlength=len(job.labels))
        return Trained(Always(counts / counts.sum()))

    def load(self, folder: Path, labels: tuple[str, ...], settings: Settings, about: dict[str, Any]) -> Fitted:
        path = folder / "majority.json"
        shares = read_object(path, AlwaysFile)["shares"]
        if len(shares) != len(labels) or abs(sum(shares) - 1) > 1e-6:
            raise UserError(f"{path}: damaged: these are no shares of {len(labels)} labels, which sum to one")
        return Always(shares)


class WordWeights(Fitted):
    """TF-IDF over words and pairs of words, and a linear model over them."""

    def __init__(self, vectorizer: Any, weights: np.ndarray, bias: np.ndarray) -> None:
        self.vectorizer, self.weights, self.bias = vectorizer, weights, bias
        self.trained_parameters = weights.size + bias.size

    def probabilities(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> np.ndarray:
        if not len(texts):
            return np.zeros((0, max(2, len(self.bias))))
        scores = self.vectorizer.transform(_joined(texts, seconds)) @ self.weights.T + self.bias
        if scores.shape[1] == 1:  # two labels are one score: how much rather the second
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def save(self, folder: Path) -> None:
        words = sorted(self.vectorizer.vocabulary_, key=self.vectorizer.vocabulary_.__getitem__)
        with new_file(folder / "tfidf.safetensors") as part:
            tensors = {"weights": self.weights, "bias": self.bias, "idf": np.asarray(self.vectorizer.idf_)}
            save_file(tensors, part, {"words": json.dumps(words)})


@register
class Tfidf(Method):
    name: ClassVar[str] = "tfidf"
    about: ClassVar[str] = "TF-IDF of words and word pairs, logistic regression; seconds, and hard to beat"
    needs_model: ClassVar[bool] = False
    seeded: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        from sklearn.linear_model import LogisticRegression

        vectorizer = _vectorizer()
        texts = _joined(job.train.texts, job.train.seconds)
        try:
            matrix = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise UserError(f"tfidf: the training texts hold no words to count: {error}") from error
        balanced = "balanced" if job.settings.class_weights else None
        model = LogisticRegression(C=10.0, max_iter=2_000, class_weight=balanced, random_state=job.settings.seed)
        model.fit(matrix, job.targets)
        # A label without examples gets no row from scikit-learn; it gets one here, so that columns are labels.
        weights, bias = model.coef_, model.intercept_
        if len(job.labels) > 2:
            full = np.zeros((len(job.labels), weights.shape[1])), np.full(len(job.labels), -1e9)
            rows = model.classes_
            if len(rows) == 2:
                weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
            full[0][rows], full[1][rows] = weights, bias
            weights, bias = full
        return Trained(WordWeights(vectorizer, weights, bias))

    def load(self, folder: Path, labels: tuple[str, ...], settings: Settings, about: dict[str, Any]) -> Fitted:
        path = folder / "tfidf.safetensors"
        try:
            with safe_open(path, framework="np") as file:
                words = held(json.loads(file.metadata()["words"]), tuple[str, ...], "words")
            tensors = load_file(path)
            shapes = {name: tensors[name].shape for name in ("weights", "bias", "idf")}
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: damaged: {error}") from error
        rows = len(labels) if len(labels) > 2 else 1
        if shapes != {"weights": (rows, len(words)), "bias": (rows,), "idf": (len(words),)}:
            raise UserError(f"{path}: damaged: not the weights of {len(words):,} words and {len(labels)} labels")
        if not all(tensors[name].dtype == np.float64 and np.isfinite(tensors[name]).all() for name in shapes):
            raise UserError(f"{path}: damaged: weights that are no numbers")
        vectorizer = _vectorizer()
        vectorizer.vocabulary_ = {word: row for row, word in enumerate(words)}
        vectorizer.idf_ = tensors["idf"]
        return WordWeights(vectorizer, tensors["weights"], tensors["bias"])


def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]")


def _joined(texts: Sequence[str], seconds: Sequence[str] | None) -> list[str]:
    """A pair is one text, its halves kept apart by a mark that no word is."""
    if seconds is None:
        return list(texts)
    return [f"{first} ! ! {second}" for first, second in zip(texts, seconds, strict=True)]
