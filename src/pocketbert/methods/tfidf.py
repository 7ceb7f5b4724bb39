"""TF-IDF of words and word pairs with logistic regression: seconds, and hard to beat."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pocketbert.counterfactuals.variants import parse_augmentations
from pocketbert.errors import UserError
from pocketbert.methods.base import BEGIN, Method, Workload, register
from pocketbert.training.job import Fitted, Job, Predictions, Saved, Trained
from pocketbert.training.settings import AUGMENT, Settings, option
from pocketbert.values import held

if TYPE_CHECKING:
    import numpy as np

    from pocketbert.start import Start
    from pocketbert.tasks import Split

FILE = "tfidf.safetensors"


@dataclass(frozen=True)
class TfidfSettings(Settings):
    class_weights: bool = option(False, "Weigh each class by the inverse of its share.")
    augment: str | None = option(None, AUGMENT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augment is not None:
            parse_augmentations(self.augment)


class WordWeights(Fitted):
    """TF-IDF over words and pairs of words, and a linear model over them."""

    def __init__(self, vectorizer: Any, weights: "np.ndarray", bias: "np.ndarray") -> None:
        self.vectorizer, self.weights, self.bias = vectorizer, weights, bias
        self.trained_parameters = weights.size + bias.size
        self.model_bytes = weights.nbytes + bias.nbytes

    def predict(self, split: "Split", *, keep: bool = False) -> Predictions:
        import numpy as np

        from pocketbert.metrics import softmax

        if not len(split):
            return Predictions(np.zeros((0, max(2, len(self.bias)))))
        scores = self.vectorizer.transform(_joined(split)) @ self.weights.T + self.bias
        if scores.shape[1] == 1:  # two labels are one score: how much rather the second
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        return Predictions(softmax(scores))

    def save(self, folder: Path) -> None:
        import numpy as np
        from safetensors.numpy import save_file

        from pocketbert.files import new_file

        words = sorted(self.vectorizer.vocabulary_, key=self.vectorizer.vocabulary_.__getitem__)
        with new_file(folder / FILE) as part:
            tensors = {"weights": self.weights, "bias": self.bias, "idf": np.asarray(self.vectorizer.idf_)}
            save_file(tensors, part, {"words": json.dumps(words)})


@register
class Tfidf(Method):
    name: ClassVar[str] = "tfidf"
    description: ClassVar[str] = "TF-IDF of words and word pairs, logistic regression; seconds, and hard to beat"
    settings: ClassVar[type[Settings]] = TfidfSettings
    seeded: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        import numpy as np
        from sklearn.linear_model import LogisticRegression

        assert isinstance(job.settings, TfidfSettings)
        vectorizer = _vectorizer()
        task = job.task
        try:
            matrix = vectorizer.fit_transform(_joined(task.train))
        except ValueError as error:
            raise UserError(f"{self.name}: the training texts hold no words to count: {error}") from error
        balanced = "balanced" if job.settings.class_weights else None
        model = LogisticRegression(C=10.0, max_iter=2_000, class_weight=balanced, random_state=job.settings.seed)
        model.fit(matrix, task.targets)
        # A label without examples gets no row from scikit-learn; it gets one here, so that columns are labels.
        weights, bias = model.coef_, model.intercept_
        if len(task.labels) > 2:
            full = np.zeros((len(task.labels), weights.shape[1])), np.full(len(task.labels), -1e9)
            rows = model.classes_
            if len(rows) == 2:
                weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
            full[0][rows], full[1][rows] = weights, bias
            weights, bias = full
        return Trained(WordWeights(vectorizer, weights, bias))

    def load(self, saved: Saved) -> Fitted:
        import numpy as np
        from safetensors import SafetensorError, safe_open
        from safetensors.numpy import load_file

        path = saved.folder / FILE
        try:
            with safe_open(path, framework="np") as file:
                words = held(json.loads(file.metadata()["words"]), tuple[str, ...], "words")
            tensors = load_file(path)
            shapes = {name: tensors[name].shape for name in ("weights", "bias", "idf")}
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: damaged: {error}") from error
        labels = len(saved.labels)
        rows = labels if labels > 2 else 1
        if shapes != {"weights": (rows, len(words)), "bias": (rows,), "idf": (len(words),)}:
            raise UserError(f"{path}: damaged: not the weights of {len(words):,} words and {labels} labels")
        if not all(tensors[name].dtype == np.float64 and np.isfinite(tensors[name]).all() for name in shapes):
            raise UserError(f"{path}: damaged: weights that are no numbers")
        vectorizer = _vectorizer()
        vectorizer.vocabulary_ = {word: row for row, word in enumerate(words)}
        vectorizer.idf_ = tensors["idf"]
        return WordWeights(vectorizer, tensors["weights"], tensors["bias"])

    def operations(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        return 4 * work.words  # words and pairs, a product and a sum for each

    def estimated_seconds(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        return BEGIN + work.rows * 2e-4


def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]")


def _joined(split: "Split") -> list[str]:
    """A pair is one text, its halves kept apart by a mark that no word is."""
    if split.second_texts is None:
        return split.texts
    return [f"{first} ! ! {second}" for first, second in zip(split.texts, split.second_texts, strict=True)]
