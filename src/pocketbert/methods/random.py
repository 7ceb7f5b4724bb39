"""A label at random: what knowing nothing gives."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypedDict

from pocketbert.errors import UserError
from pocketbert.files import write_json
from pocketbert.methods.base import Method, register
from pocketbert.training.job import Fitted, Job, Saved, Trained
from pocketbert.values import Count, read_object

if TYPE_CHECKING:
    import numpy as np

FILE = "random.json"


class CoinFile(TypedDict):
    """random.json."""

    labels: Count
    seed: Count


class Coin(Fitted):
    """Probabilities at random, the same ones for the same text and seed."""

    def __init__(self, labels: int, seed: int) -> None:
        self.labels, self.seed = labels, seed

    def probabilities(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> "np.ndarray":
        import numpy as np

        result = np.zeros((len(texts), self.labels))
        for row, text in enumerate(texts):
            both = f"{self.seed}\0{text}\0{second_texts[row] if second_texts is not None else ''}"
            digest = hashlib.shake_256(both.encode("utf-8", "surrogatepass")).digest(8 * self.labels)
            draws = np.frombuffer(digest, dtype="<u8").astype(np.float64) + 1
            result[row] = draws / draws.sum()
        return result

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, {"labels": self.labels, "seed": self.seed})


@register
class Random(Method):
    name: ClassVar[str] = "random"
    description: ClassVar[str] = "a label at random: what knowing nothing gives"
    reads_texts: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        return Trained(Coin(len(job.task.labels), job.settings.seed))

    def load(self, saved: Saved) -> Fitted:
        path = saved.folder / FILE
        content = read_object(path, CoinFile)
        if content["labels"] != len(saved.labels):
            raise UserError(f"{path}: damaged: it has {content['labels']} labels, and the run {len(saved.labels)}")
        return Coin(content["labels"], content["seed"])
