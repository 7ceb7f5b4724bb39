"""Lesson: what becomes of a gradient on its way through many layers, and what keeps it alive."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson

WIDTH, DEPTH, ROWS, SEEDS = 100, 30, 16, 5


def relu(x: Tensor) -> Tensor:
    return F.relu(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "ReLU": lambda x: relu(x),
    "GELU": lambda x: F.gelu(x),
}
DEFAULT, KEEPING = "default", "variance-keeping"


def moments(activation: Callable[[Tensor], Tensor], variance: float) -> tuple[float, float]:
    """E φ(z)² and E φ′(z)² for z normal with mean 0 and this variance, by numerical integration."""
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64, requires_grad=True)
    density = torch.exp(-(z.detach() ** 2) / 2)
    density /= density.sum()
    y = activation(z * math.sqrt(variance))
    (slope,) = torch.autograd.grad(y.sum(), z)
    return float((y.detach() ** 2 * density).sum()), float((slope**2 * density).sum()) / variance


def weight_variance(kind: str, activation: Callable[[Tensor], Tensor]) -> float:
    """n times the variance of a weight."""
    return 1 / 3 if kind == DEFAULT else 1 / moments(activation, 1.0)[0]


def predicted_factor(kind: str, activation: Callable[[Tensor], Tensor]) -> float:
    """By how much one layer multiplies the gradient's norm, deep inside the network: √(nσ² E φ′²)."""
    spread, bias = weight_variance(kind, activation), 1 / (3 * WIDTH) if kind == DEFAULT else 0.0
    variance = 1.0
    for _ in range(200):  # the variance that a layer's sums settle at
        variance = spread * moments(activation, variance)[0] + bias
    return math.sqrt(spread * moments(activation, variance)[1])


def gradient_norms(
    kind: str, activation: Callable[[Tensor], Tensor], *, add: bool = False, norm: bool = False
) -> np.ndarray:
    """(DEPTH + 1): the gradient's norm after going back through 0 … 30 layers, over its norm at the top; the median
    over seeds and rows. add: h + layer(h) instead of layer(h); norm: LayerNorm after it."""
    ratios = []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        std = math.sqrt(weight_variance(kind, activation) / WIDTH)
        h = torch.tensor(random.normal(size=(ROWS, WIDTH)), requires_grad=True)
        states = [h]
        for _ in range(DEPTH):
            weight = torch.tensor(random.normal(0, std, (WIDTH, WIDTH)))
            bias = torch.tensor(random.uniform(-1, 1, WIDTH) / math.sqrt(WIDTH)) if kind == DEFAULT else 0.0
            new = activation(h @ weight + bias)
            new = h + new if add else new
            h = F.layer_norm(new, (WIDTH,)) if norm else new
            states.append(h)
        gradients = torch.autograd.grad((h * torch.tensor(random.normal(size=h.shape))).sum(), states)
        ratios.append([(one.norm(dim=1) / gradients[-1].norm(dim=1)).numpy() for one in reversed(gradients)])
    return np.median(np.concatenate([np.array(one) for one in ratios], axis=1), axis=1)


@lesson(
    "vanishing",
    "Vanishing gradients: what each layer multiplies by",
    """Going back through a layer multiplies a gradient's norm by √(nσ²·E φ′²). For sigmoid that is far below 1
    with any usual weights. For ReLU it is 1 with a variance-keeping initialisation, and below ½ with a common
    default one: ReLU alone is not enough.""",
)
def teach(page: LessonPage) -> None:
    page.section("One layer's factor")
    page.text(
        "A layer of n units makes h′ = φ(s) of h, n numbers too, with s = Wh + b. φ is the activation, applied to "
        "each number: sigmoid 1/(1 + exp(−s)), tanh, ReLU max(s, 0), or GELU s·Φ(s), with Φ the normal distribution "
        "function. φ′ is its slope. The weights W are drawn with mean 0 and variance σ². Backwards, the gradient g′ "
        "with respect to h′ becomes g = Wᵀ(φ′(s)∘g′) with respect to h (∘: element by element). Each number of g is a "
        "sum of n products of a weight and a term φ′(s)g′, and weights are independent with mean 0, so squares add up:"
    )
    page.formula(
        "E‖g‖² ≈ n·σ²·E(φ′(s)²)·‖g′‖²          factor per layer: √(n σ² E φ′²)          after L layers: factorᴸ"
    )
    page.text(
        "E is the mean over the weights, with s normal. sigmoid's slope is at most ¼; tanh's at most 1; ReLU's is 1 "
        "above zero and 0 below, so E φ′² = ½, since s is as often above zero as below. Two ways to draw weights: the "
        "default of torch's Linear has nσ² = ⅓ (and small biases). Variance-keeping means: choose σ so that the sums "
        "s keep variance 1 from layer to layer, nσ² = 1 / E φ(z)² with z standard normal; for ReLU that is 2 (He et "
        "al. 2015)."
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        spread = float(torch.nn.Linear(WIDTH, 100 * WIDTH).weight.detach().var()) * WIDTH
    page.check(
        f"n times the variance of torch's default weights is {spread:.3f} (we draw normal ones with that variance)",
        abs(spread - 1 / 3) < 0.005,
    )
    z = torch.tensor([-2.0, -0.1, 0.1, 3.0], requires_grad=True)
    (slopes,) = torch.autograd.grad(relu(z).sum(), z)
    page.check("ReLU's slope is 0 at −2 and −0.1, and 1 at 0.1 and 3", slopes.tolist() == [0, 0, 1, 1])
    steepest = float(torch.autograd.functional.jacobian(torch.sigmoid, torch.zeros(1)).max())
    page.check(f"sigmoid's largest slope, at 0, is {steepest:g}", steepest == 0.25)
    curves = {
        kind: {name: gradient_norms(kind, one) for name, one in ACTIVATIONS.items()} for kind in (DEFAULT, KEEPING)
    }
    factors, rows, off = {}, [], 0.0
    for kind, lines in curves.items():
        for name, line in lines.items():
            predicted = predicted_factor(kind, ACTIVATIONS[name])
            measured = float((line[25] / line[5]) ** (1 / 20))
            off = max(off, abs(measured / predicted - 1))
            factors[f"{name}, {kind}"] = measured
            rows.append([name, kind, f"{predicted:.2f}", f"{measured:.2f}", _short(line[DEPTH])])
    page.table(
        ["activation", "weights", "factor, predicted", "factor, measured", "gradient left after 30 layers"], rows
    )
    page.check(
        f"networks of {DEPTH} layers, {WIDTH} wide, {SEEDS} seeds: the measured factor per layer (between the 5th and "
        "the 25th) is the predicted one, within 6 %",
        off < 0.06,
        factor_per_layer=factors,
    )
    last = {kind: {name: float(line[DEPTH]) for name, line in lines.items()} for kind, lines in curves.items()}
    page.check(
        "sigmoid: after 30 layers less than 1e-8 is left, with both ways",
        max(last[kind]["sigmoid"] for kind in last) < 1e-8,
    )
    page.check(
        f"ReLU, variance-keeping: {last[KEEPING]['ReLU']:.2f} of the gradient's norm is left",
        0.2 < last[KEEPING]["ReLU"] < 5,
        gradient_left=last,
    )
    page.check("ReLU, default: less than 1e-8 is left", last[DEFAULT]["ReLU"] < 1e-8)
    page.mistake(
        """“ReLU solves vanishing gradients because its slope is 1.” It is 0 for half of the units; the factor ½
        has to come back from larger weights. With torch's default weights ReLU's gradients vanish too, faster
        than tanh's."""
    )
    page.check(
        "with default weights, less is left for ReLU than for tanh", last[DEFAULT]["ReLU"] < last[DEFAULT]["tanh"]
    )
    residual(page, curves)


def _short(value: float) -> str:
    return f"{value:.2f}" if value > 0.01 else f"{value:.0e}".replace("e-0", "e-")


def residual(page: LessonPage, curves: dict[str, dict[str, np.ndarray]]) -> None:
    page.section("Adding the input, and normalising")
    page.text(
        "BERT's layers are h′ = LayerNorm(h + layer(h)). The sum gives the gradient a way around the layer: the "
        "derivative of h + layer(h) is 1 plus the layer's own. LayerNorm keeps the sums from growing, and takes some "
        "of the gradient back: it divides by the standard deviation of a sum that is larger than h was."
    )
    added = {name: gradient_norms(DEFAULT, one, add=True) for name, one in ACTIVATIONS.items()}
    both = {name: gradient_norms(DEFAULT, one, add=True, norm=True) for name, one in ACTIVATIONS.items()}
    page.table(
        ["activation (default weights)", "plain", "+ input", "+ input, LayerNorm"],
        [[name, *(_short(lines[name][DEPTH]) for lines in (curves[DEFAULT], added, both))] for name in ACTIVATIONS],
    )
    least = min(float(line[DEPTH]) for line in both.values())
    page.check(
        f"with default weights, the input added and LayerNorm, every activation keeps at least {least:.2f} of the "
        "gradient over 30 layers",
        least > 0.02,
        gradient_left_with_residual={name: float(line[DEPTH]) for name, line in both.items()},
        gradient_left_with_sum={name: float(line[DEPTH]) for name, line in added.items()},
    )
    worst = min(both, key=lambda name: both[name][DEPTH])
    page.check(
        f"that is more than a million times what the plain stack keeps, for {worst} (the least of them)",
        both[worst][DEPTH] > 1e6 * curves[DEFAULT][worst][DEPTH],
    )
    panels: list[Panel] = []
    for title, lines in (
        ("default weights", curves[DEFAULT]),
        ("variance-keeping", curves[KEEPING]),
        ("default, + input, LayerNorm", both),
    ):
        panel = Panel(
            "layers gone back",
            "gradient norm left" if not panels else "",
            (0, DEPTH),
            (1e-28, 1e4),
            title=title,
            log_y=True,
            wide=270,
        )
        panel.reference(y=1.0)
        for name, line in lines.items():
            panel.line([(float(depth), float(value)) for depth, value in enumerate(line)], name, markers=6)
        panels.append(panel)
    page.draw(
        figure(panels, "Gradient norms through 30 layers for four activations"),
        """What is left of a gradient's norm after going back through 1 to 30 layers (median; logarithmic). A
        straight line is a constant factor per layer. The dotted line is 1: nothing lost.""",
    )
