"""Lesson: stacked linear layers are one linear layer; it takes something between them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson

WIDTH, DEPTHS, ROWS = 16, (1, 2, 3, 5, 10, 20), 2000
BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "tanh": torch.tanh,
    "ReLU": F.relu,
    "GELU": F.gelu,
}


def stack(depth: int, seed: int) -> list[nn.Linear]:
    """Linear layers, 16 wide, with random weights that keep a vector's length about as it is."""
    generator = torch.Generator().manual_seed(seed)
    layers = [nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(depth)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.normal_(0, WIDTH**-0.5, generator=generator)
            layer.bias.normal_(0, 0.3, generator=generator)
    return layers


def run(layers: list[nn.Linear], x: Tensor, between: Callable[[Tensor], Tensor]) -> Tensor:
    for layer in layers[:-1]:
        x = between(layer(x))
    return layers[-1](x)


def collapse(layers: list[nn.Linear]) -> tuple[Tensor, Tensor]:
    """The one matrix and the one bias that a stack without anything between is."""
    weight, bias = torch.eye(WIDTH, dtype=torch.float64), torch.zeros(WIDTH, dtype=torch.float64)
    for layer in layers:
        weight, bias = layer.weight @ weight, layer.weight @ bias + layer.bias
    return weight, bias


def unexplained(x: Tensor, y: Tensor) -> float:
    """The share of y's variance that the best linear layer (least squares) leaves."""
    inputs = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    best = torch.linalg.lstsq(inputs, y).solution
    return float((y - inputs @ best).var(correction=0) / (y - y.mean(0)).var(correction=0))


@lesson(
    "linear-collapse",
    "Linear layers, stacked, are one",
    """W₂(W₁x + b₁) + b₂ = (W₂W₁)x + (W₂b₁ + b₂): any number of linear layers with nothing between them is one
    linear layer. With a non-linear function between them it is not.""",
)
@torch.no_grad()
def teach(page: LessonPage) -> None:
    page.section("Two layers, then any number")
    page.text(
        "A linear layer makes Wx + b of a vector x: a matrix W and a bias b, both learned. Put one after the other "
        "and multiply out:"
    )
    page.formula("W₂(W₁x + b₁) + b₂ = W₂W₁ x + W₂b₁ + b₂ = W x + b     with W = W₂W₁ and b = W₂b₁ + b₂")
    page.text(
        "That is a linear layer again, so a third one can be taken in the same way, and so on: W ← WₖW, b ← Wₖb + bₖ."
    )
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    worst = 0.0
    left: dict[str, list[float]] = {name: [] for name in BETWEEN}
    for depth in DEPTHS:
        layers = stack(depth, seed=depth)
        weight, bias = collapse(layers)
        y = run(layers, x, BETWEEN["nothing"])
        worst = max(worst, float((y - (x @ weight.T + bias)).abs().max()))
        for name, between in BETWEEN.items():
            left[name].append(unexplained(x, run(layers, x, between)))
    page.check(
        f"stacks of {', '.join(map(str, DEPTHS))} random layers, {WIDTH} wide, give on {ROWS:,} random vectors what "
        "one matrix and one bias give, to 1e-9",
        worst < 1e-9,
        collapse_error=worst,
    )
    narrow = nn.Linear(WIDTH, 3, bias=False, dtype=torch.float64).weight
    rank = int(torch.linalg.matrix_rank(narrow.T @ narrow))
    page.text(
        "Stacking can even lose something: if a layer in the middle is narrow, everything after it has no more to "
        f"work with than came through. From {WIDTH} numbers to 3 and back to {WIDTH} is two matrices, and together "
        "one of rank 3 at most."
    )
    page.check(f"its rank is {rank}", rank == 3, rank=rank)

    page.section("Something between them")
    page.text(
        "Now apply a function to every number between the layers: tanh, ReLU (max(t, 0)) or GELU (t·Φ(t), with Φ the "
        "normal distribution function). The best that one linear layer can do in place of the stack is least squares; "
        "what it leaves of the variance of the results is 0 where the stack is linear."
    )
    page.table(
        ["between the layers", *(f"{depth} layers" if depth > 1 else "1 layer" for depth in DEPTHS)],
        [[name, *(f"{100 * share:.1f} %" for share in shares)] for name, shares in left.items()],
    )
    page.check("nothing between: least squares leaves nothing, at every depth", max(left["nothing"]) < 1e-12)
    others = [min(shares[1:]) for name, shares in left.items() if name != "nothing"]
    page.check(
        "tanh, ReLU or GELU between: from two layers on it leaves more than 1 %",
        min(others) > 0.01,
        unexplained=left,
    )
    panel = Panel("layers", "variance left, %", (1, 20), (0, 100), wide=470)
    for name, shares in left.items():
        panel.line(
            [(float(depth), 100 * share) for depth, share in zip(DEPTHS, shares, strict=True)],
            f"{name} between",
            markers=6,
        )
    page.draw(
        figure([panel], "Variance that one linear layer leaves unexplained, by depth"),
        """What the best single linear layer cannot explain of a stack's results. With nothing between the layers:
        0 at any depth. One random stack per depth.""",
    )
    page.mistake(
        """“A deeper network is a more powerful one” is not true of depth alone: 20 linear layers can do what one
        can, with 20 times the parameters."""
    )
