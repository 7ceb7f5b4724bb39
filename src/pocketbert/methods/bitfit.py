"""BitFit: the biases of a pretrained encoder, and a new head (Zaken, Ravfogel and Goldberg 2021)."""

from typing import TYPE_CHECKING, ClassVar

from pocketbert.methods.base import register
from pocketbert.methods.neural import NetworkMethod

if TYPE_CHECKING:
    from pocketbert.training.network import Part


@register
class BitFit(NetworkMethod):
    name: ClassVar[str] = "bitfit"
    description: ClassVar[str] = "the biases of a pretrained encoder, a thousandth of it, and a new head"
    full_epochs: ClassVar[int] = 4
    rate_at_384: ClassVar[float] = 1e-3  # few parameters, each of which moves far

    def trains(self, part: "Part") -> bool:
        return part.read and (part.of == "heads" or part.name.endswith(".bias"))
