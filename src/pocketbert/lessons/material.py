"""What several lessons look at: sentences of real text, and the bundled model with everything inside it visible."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from pocketbert.encoder import Attention, Encoder
from pocketbert.loading import load_encoder, load_tokenizer
from pocketbert.tokenizer import Tokenizer

MODEL = "pocket-mini"

# Openings of novels, all in the public domain.
SENTENCES = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife.",
    "Call me Ishmael.",
    "Happy families are all alike; every unhappy family is unhappy in its own way.",
    "There was no possibility of taking a walk that day.",
    "No one would have believed in the last years of the nineteenth century that this world was being watched.",
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do.",
    "The studio was filled with the rich odour of roses.",
)


def bundled_model() -> tuple[Encoder, Tokenizer]:
    """The bundled encoder, fresh from its file, with its tokenizer."""
    return load_encoder(MODEL, quiet=True), load_tokenizer(MODEL)


def attentions_of(encoder: Encoder) -> list[Attention]:
    """The attention of each layer, the first layer's first."""
    return [part for part in encoder.modules() if isinstance(part, Attention)]


@contextmanager
def watched(modules: dict[str, nn.Module]) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """While the block runs: what went into each of these modules, and what came out of it, the last time."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def watch(name: str, module: nn.Module) -> object:
        def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor | tuple[Tensor, ...]) -> None:
            seen[name] = (inputs[0].detach(), (output[0] if isinstance(output, tuple) else output).detach())

        return module.register_forward_hook(keep)

    handles = [watch(name, module) for name, module in modules.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()  # type: ignore[attr-defined]
