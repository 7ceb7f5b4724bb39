"""Always the most frequent label: what any model has to beat before it can be said to have read a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypedDict

from pocketbert.errors import UserError
from pocketbert.files import write_json
from pocketbert.methods.base import Method, register
from pocketbert.training.job import Fitted, Job, Saved, Trained
from pocketbert.values import Between, read_object

if TYPE_CHECKING:
    import numpy as np

FILE = "majority.json"


class AlwaysFile(TypedDict):
    """majority.json."""

    shares: tuple[Annotated[float, Between(0, 1)], ...]


class Always(Fitted):
    """The same probabilities for every text: the labels' shares in training."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = [float(share) for share in shares]

    def probabilities(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> "np.ndarray":
        import numpy as np

        return np.tile(np.asarray(self.shares), (len(texts), 1))

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, {"shares": self.shares})


@register
class Majority(Method):
    name: ClassVar[str] = "majority"
    description: ClassVar[str] = "always the most frequent label of the training texts"
    seeded: ClassVar[bool] = False
    reads_texts: ClassVar[bool] = False

    def fit(self, job: Job) -> Trained:
        import numpy as np

        counts = np.bincount(job.task.targets, minlength=len(job.task.labels))
        return Trained(Always(counts / counts.sum()))

    def load(self, saved: Saved) -> Fitted:
        path = saved.folder / FILE
        shares = read_object(path, AlwaysFile)["shares"]
        if len(shares) != len(saved.labels) or abs(sum(shares) - 1) > 1e-6:
            raise UserError(f"{path}: damaged: these are no shares of {len(saved.labels)} labels, which sum to one")
        return Always(shares)
