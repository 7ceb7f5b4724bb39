"""What the methods have in common that train a BERT, or a part of one: a filter says which."""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pocketbert.errors import UserError
from pocketbert.methods.base import BEGIN, WEIGHTS, DataSize, Method, Workload
from pocketbert.training.settings import Settings, TrainingSettings, check_device

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.job import Fitted, Job, Saved, Trained
    from pocketbert.training.network import Part

OVERHEAD = 4e-4  # seconds an example costs beside its matrix products
FEW, SOME = 300, 1_500  # rows
FIRST_STEPS = 100  # that fine-tuning takes at least
CAN_CHOOSE = 200  # rows; of fewer, the tenth that is dev chooses an epoch by chance
ENOUGH = 1_000  # rows per class
SPEED = 3e10  # floating point operations per second, in one thread


class NetworkMethod(Method):
    """A method that trains a network: an encoder, a pooling, a head. Subclasses say what of it trains."""

    settings: ClassVar[type[Settings]] = TrainingSettings
    starts_from: ClassVar[str | None] = WEIGHTS
    full_epochs: ClassVar[int] = 3  # where there are many rows of every class
    rate_at_384: ClassVar[float] = 5e-5  # of an encoder 384 wide; a smaller one wants more
    rate_power: ClassVar[float] = 1.6

    @abstractmethod
    def trains(self, part: "Part") -> bool:
        """Does this parameter train? The same filter says what is saved, loaded and counted."""

    def extend(self, encoder: "Encoder", settings: Any) -> None:
        """Put what the method adds, if anything, into the encoder's slots (encoder.Layer), drawn from the seed."""

    # -- what is derived -----------------------------------------------------------------------------------------

    def resolve(self, settings: Settings, start: "Start | None", size: DataSize) -> Settings:
        assert isinstance(settings, TrainingSettings)
        assert start is not None
        check_device(settings.device)
        changes: dict[str, Any] = {}
        if settings.learning_rate is None:
            changes["learning_rate"] = self.default_rate(start.config.width)
        epochs, batch_size = self.default_steps(size)
        if settings.epochs is None:
            changes["epochs"] = epochs
        if settings.batch_size is None:
            changes["batch_size"] = batch_size
        if settings.keep is None:
            changes["keep"] = "best" if settings.patience else self.keeps(size)
        elif settings.keep == "last" and settings.patience:
            raise UserError("patience stops where dev is best, and keep 'last' chooses no epoch: leave one of them out")
        if settings.pooling is None:
            changes["pooling"] = self.own_pooling(start)
        if settings.precision is None:
            changes["precision"] = self.default_precision(start.config.width)
        if settings.max_length > start.config.positions:
            positions = start.config.positions
            raise UserError(f"max_length {settings.max_length} is more than the model's {positions} positions")
        return super().resolve(replace(settings, **changes), start, size)

    def default_rate(self, width: int) -> float:
        """One significant digit of a power law in the width.

        The published rates starve small models: a tiny BERT wants ten times what a base one does. The rule was read
        off dev accuracy on sst2 (docs/performance.md); a rate of one's own overrides it.
        """
        rate = self.rate_at_384 * (384 / width) ** self.rate_power
        digit = 10.0 ** math.floor(math.log10(rate))
        return float(f"{round(rate / digit) * digit:.0e}")

    def default_steps(self, size: DataSize) -> tuple[int, int]:
        """Epochs and batch size. With few rows, the usual ones are so few steps that nothing is learnt.

        The rule was read off the dev accuracy of sst2 and sick (docs/performance.md, `python -m benchmarks.defaults`).
        """
        if size.rows / size.classes > ENOUGH:
            return self.full_epochs, 32
        batch_size = 8 if size.rows <= FEW else 16 if size.rows <= SOME else 32
        return max(10, math.ceil(FIRST_STEPS * batch_size / size.rows)), batch_size

    def keeps(self, size: DataSize) -> str:
        """Which epoch's weights, where nobody says: the best on dev, or the last where dev would be too small."""
        return "best" if size.rows > CAN_CHOOSE else "last"

    def default_precision(self, width: int) -> str:
        from pocketbert.training.machine import BFLOAT16_PAYS, has_bfloat16

        return "bfloat16" if width >= BFLOAT16_PAYS and has_bfloat16() else "float32"

    def own_pooling(self, start: "Start") -> str:
        return start.pooling

    def usual_model(self) -> str | None:
        from pocketbert.catalog import usual_model

        return usual_model()

    # -- a run ---------------------------------------------------------------------------------------------------

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer]":
        start = job.start
        assert start is not None
        if not start.pretrained:
            raise UserError(
                f"'{start.name}' is a shape with fresh weights: nothing to {self.name}; "
                f"use a method that starts from a shape ({', '.join(from_shapes())}), or a pretrained model "
                f"(pocketbert models)"
            )
        return start.encoder(seed=job.settings.seed), start.require_tokenizer()

    def fit(self, job: "Job") -> "Trained":
        from pocketbert.training.fit import fit_network

        return fit_network(self, job, (job.settings.seed,))[0]

    def load(self, saved: "Saved") -> "Fitted":
        from pocketbert.training.fit import load_network

        return load_network(self, saved)

    def reading(self, start: "Start | None", settings: Settings) -> "tuple[Tokenizer | None, int | None]":
        assert isinstance(settings, TrainingSettings)
        return None if start is None else start.tokenizer, settings.max_length

    def identity(self, start: "Start | None", settings: Settings, fingerprint: str | None) -> Any:
        assert start is not None
        return [fingerprint, None if start.tokenizer is None else start.tokenizer.fingerprint]

    # -- what it costs -------------------------------------------------------------------------------------------

    def estimated_seconds(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        """From the number of products a run needs."""
        assert isinstance(settings, TrainingSettings)
        assert start is not None
        forward = self.forward_products(start, settings, work)
        passes = settings.passes
        faster = 1.8 if settings.precision == "bfloat16" else 1.0
        trained = work.rows * passes * (3 * forward / (SPEED * faster) + OVERHEAD)
        return BEGIN + trained + work.evaluated * passes * forward / SPEED

    def operations(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        assert isinstance(settings, TrainingSettings)
        assert start is not None
        return self.forward_products(start, settings, work)

    def forward_products(self, start: "Start", settings: TrainingSettings, work: Workload) -> float:
        """Floating point operations to read one text."""
        config = start.config
        tokens = min(1.4 * work.words + 3, settings.max_length)
        layer = 4 * config.width**2 + 2 * config.width * config.inner
        return 2 * tokens * config.layers * (layer + tokens * config.width)


def from_shapes() -> list[str]:
    """The methods that can start from a shape without weights."""
    from pocketbert.methods.base import SHAPE, list_methods

    return [name for name, method in list_methods().items() if method.starts_from == SHAPE]
