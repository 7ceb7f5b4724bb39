"""AdapterFusion: adapters of several tasks over one encoder, all fixed, mixed by attention (Pfeiffer et al. 2021)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pocketbert.errors import UserError
from pocketbert.methods.base import register
from pocketbert.methods.neural import NetworkMethod
from pocketbert.methods.pfeiffer import Pfeiffer
from pocketbert.training.settings import Settings, TrainingSettings, option

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.fit import NetworkFitted
    from pocketbert.training.job import Job, Matrix, Trained
    from pocketbert.training.network import Part

LOOKED_AT = 200  # texts that the weights of adapters are averaged over


@dataclass(frozen=True)
class FusionSettings(TrainingSettings):
    cache_features: bool = option(True, "Compute what stays the same (lower layers) once, for all epochs.")


@register
class FusionMethod(NetworkMethod):
    name: ClassVar[str] = "fusion"
    description: ClassVar[str] = (
        "adapters of several tasks on one encoder (--adapters), all of which stay; their mixture"
    )
    settings: ClassVar[type[Settings]] = FusionSettings
    fuses: ClassVar[str | None] = Pfeiffer.name
    full_epochs: ClassVar[int] = 4
    rate_at_384: ClassVar[float] = 1e-4  # queries and keys are as large as BERT's own

    def trains(self, part: "Part") -> bool:
        return part.of == "heads" or (part.of == "added" and "members" not in part.name.split("."))

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer]":
        assert job.start is not None
        if not job.start.adapters:
            raise UserError(
                f"{self.name} puts adapters together, and none are named. Train one per task, such as: "
                f"pocketbert train {job.task.name} --method {self.fuses} --model {job.start.name} "
                f"--out runs/{job.task.name}; then name them: "
                f"--adapters {job.task.name}=runs/{job.task.name},other=runs/other"
            )
        return super().prepare(job)

    def extend(self, encoder: "Encoder", settings: Any) -> None:
        from pocketbert.adapters import draw_fusion

        draw_fusion(encoder, settings.seed)

    def fit(self, job: "Job") -> "Trained":
        from pocketbert.training.fit import NetworkFitted

        trained = super().fit(job)
        assert job.start is not None
        assert isinstance(trained.fitted, NetworkFitted)
        trained.matrices = [fusion_weights(trained.fitted, job, tuple(job.start.adapters))]
        return trained


def fusion_weights(fitted: "NetworkFitted", job: "Job", names: tuple[str, ...]) -> "Matrix":
    """The mean weight of each adapter in each place of the encoder, over the tokens of some texts; dev's, if any."""
    import torch

    from pocketbert.adapters import Fusion
    from pocketbert.training.job import Matrix

    split = job.task.train if job.task.dev is None or not len(job.task.dev) else job.task.dev
    encoded = split.encoded(fitted.tokenizer, fitted.settings.max_length)
    added = fitted.network.encoder.added()
    sums = {place: torch.zeros(len(names), dtype=torch.float64) for place in added}
    counts = dict.fromkeys(added, 0)

    def listen(place: str, module: Fusion) -> Any:
        def heard(_: Any, given: tuple[Any, ...]) -> None:
            weights = module.mixed(*given)[1].flatten(0, -2)
            sums[place] += weights.double().sum(dim=0).cpu()
            counts[place] += len(weights)

        return module.register_forward_pre_hook(heard)

    hooks = [listen(place, module) for place, module in added.items() if isinstance(module, Fusion)]
    read = min(LOOKED_AT, len(encoded))
    with torch.inference_mode():
        for row in range(read):  # one at a time: padding is no token
            batch = {name: tensor.to(fitted.settings.device) for name, tensor in encoded.tensors([row]).items()}
            fitted.network(batch, fitted.task)
    for hook in hooks:
        hook.remove()
    values = tuple(tuple((sums[place] / max(1, counts[place])).tolist()) for place in added)
    places = tuple(f"layer {int(place.split('.')[1]) + 1}, {place.split('.')[-1].replace('_', ' ')}" for place in added)
    return Matrix(
        "Fusion weights: which adapter is listened to, by layer",
        places,
        names,
        values,
        f"Mean over the tokens of {read} texts of {'train' if split is job.task.train else 'dev'}; a row sums to one.",
    )
