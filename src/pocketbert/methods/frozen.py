"""A frozen encoder: a new head on a pretrained encoder that stays as it is, its sentence vectors computed once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pocketbert.errors import UserError
from pocketbert.methods.base import BEGIN, DataSize, Workload, register
from pocketbert.methods.neural import OVERHEAD, SPEED, NetworkMethod
from pocketbert.training.settings import Settings, TrainingSettings, option

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.job import Job, Trained
    from pocketbert.training.network import Part


STEPS, BATCH = 300, 32
MOST_WEIGHTS = 100_000  # of heads that train at once: beyond, they fall out of the processor's cache and are slower


@dataclass(frozen=True)
class FrozenSettings(TrainingSettings):
    cache_features: bool = option(True, "Compute the encoder's sentence vectors once, for all epochs, rates and runs.")


@register
class Frozen(NetworkMethod):
    name: ClassVar[str] = "frozen"
    description: ClassVar[str] = "a new head on a pretrained encoder that stays as it is"
    settings: ClassVar[type[Settings]] = FrozenSettings
    usual: ClassVar[bool] = True

    def trains(self, part: "Part") -> bool:
        return part.of == "heads"

    def default_rate(self, width: int) -> float:
        return 3e-3

    def default_precision(self, width: int) -> str:
        return "float32"

    def default_steps(self, size: DataSize) -> tuple[int, int]:
        """As many epochs as make 300 steps: a head on few texts is not trained before."""
        return min(400, max(20, math.ceil(STEPS * BATCH / size.rows))), BATCH

    def keeps(self, size: DataSize) -> str:
        """A head on fixed features hardly overfits, and to choose its epoch on a few texts costs more than it brings:
        256 texts of sst2 gave 66.6 ± 8.2 % so, and 76.3 ± 2.2 % with the last epoch of all of them
        (docs/performance.md)."""
        return "last"

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer]":
        assert isinstance(job.settings, FrozenSettings)
        if job.start is not None and job.settings.pooling == "pooler" and not job.start.has_pooler:
            raise UserError(f"model '{job.start.name}' has no pooler; use pooling cls or mean")
        return super().prepare(job)

    def shares(self, settings: Settings) -> bool:
        assert isinstance(settings, FrozenSettings)
        return settings.cache_features

    def bank_size(self, settings: Settings, start: "Start | None", labels: int) -> int:
        from pocketbert.heads import HEADS, make_head

        assert isinstance(settings, FrozenSettings)
        if start is None or settings.patience or not settings.cache_features or HEADS[settings.head].reads_states:
            return 1
        head = make_head(settings.head, start.config.width, labels, seed=None)
        return max(1, MOST_WEIGHTS // (len(settings.rates) * sum(p.numel() for p in head.parameters())))

    def fit_bank(self, job: "Job", seeds: Sequence[int]) -> "list[Trained]":
        from pocketbert.training.fit import fit_network

        return fit_network(self, job, tuple(seeds))

    def estimated_seconds(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        assert isinstance(settings, FrozenSettings)
        assert start is not None
        if not settings.cache_features:
            return super().estimated_seconds(start, settings, work)
        heads = work.rows * settings.passes * 4e-6 * start.config.width / 128
        forward = self.forward_products(start, settings, work)
        return BEGIN + (work.rows + work.evaluated) * (forward / SPEED + OVERHEAD) + heads
