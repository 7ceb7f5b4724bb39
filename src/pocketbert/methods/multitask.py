"""Multi-task training: one encoder learns several tasks at once, each with a head of its own (Caruana 1997)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pocketbert.methods.base import register
from pocketbert.methods.finetune import Finetune, FinetuneSettings
from pocketbert.training.settings import Settings, option
from pocketbert.values import OneOf

if TYPE_CHECKING:
    from pocketbert.training.job import Job, Matrix, Trained

SAMPLINGS = ("proportional", "square-root")
SELECTIONS = ("own", "mean")


@dataclass(frozen=True)
class MultitaskSettings(FinetuneSettings):
    sampling: Annotated[str, OneOf(SAMPLINGS)] = option(
        SAMPLINGS[0], "How often each task is trained on: proportional to its rows, or to their square-root."
    )
    selection: Annotated[str, OneOf(SELECTIONS)] = option(
        SELECTIONS[0], "Whose dev split chooses rate and epoch: the run's own task's, or the mean over all."
    )


@register
class Multitask(Finetune):
    """A run is about one task, on whose dev split it is chosen; the heads of the others are not kept."""

    name: ClassVar[str] = "multitask"
    description: ClassVar[str] = "as finetune, on several tasks at once (--tasks), a head for each"
    settings: ClassVar[type[Settings]] = MultitaskSettings
    usual: ClassVar[bool] = False
    learns_several: ClassVar[bool] = True

    def fit(self, job: "Job") -> "Trained":
        from pocketbert.training.fit import NetworkFitted

        trained = super().fit(job)
        fitted = trained.fitted
        assert isinstance(fitted, NetworkFitted)
        fitted.network.keep_head(job.task.name)
        trained.fitted = NetworkFitted(fitted.network, fitted.tokenizer, fitted.settings, self.trains, job.task)
        if job.task.dev is not None:
            trained.matrices = [dev_by_epoch(trained, job)]
        return trained


def dev_by_epoch(trained: "Trained", job: "Job") -> "Matrix":
    """Each task's dev accuracy after every epoch, at the rate that was chosen: tasks are best at different times."""
    from pocketbert.training.job import Matrix

    records = [record for record in trained.history if record.rate == trained.best["learning_rate"]]
    names = tuple(task.name for task in job.tasks if task.dev is not None)
    return Matrix(
        "Dev accuracy of each task, by epoch",
        tuple(f"epoch {record.epoch}" for record in records),
        names,
        tuple(tuple(record.scores.get(f"dev_accuracy {name}") for name in names) for record in records),
        f"The epoch is chosen on {job.task.name}.",
    )
