"""Lesson: what LayerNorm does to a vector's length, for random vectors and inside a real model."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pocketbert.encoder import Encoder
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import MODEL, SENTENCES, bundled_model, watched

EPSILON = 1e-5  # torch's; BERT's is 1e-12
WIDTHS = (2, 8, 64, 256, 768)


def normalise(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """What the encoder's norms do before γ and β."""
    return F.layer_norm(x, x.shape[-1:], eps=epsilon)


def squared_norm(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """The three sums of the lesson."""
    return (gamma**2 * z**2).sum(-1) + 2 * (gamma * beta * z).sum(-1) + (beta**2).sum(-1)


@lesson(
    "layernorm",
    "LayerNorm: a length that does not depend on the input",
    """With γ = 1 and β = 0 the result of LayerNorm has norm √d (exactly √(d·Var/(Var + ε))). With scalar γ and β
    the norm is √d·√(γ² + β²), not γ√d + β.""",
)
def teach(page: LessonPage) -> None:
    generator = torch.Generator().manual_seed(0)
    page.section("With γ = 1 and β = 0")
    page.text(
        "A vector x has d numbers x₁ … xd; sums Σ run over all of them. Their mean is μ = (1/d) Σ xᵢ, their variance "
        "Var = (1/d) Σ (xᵢ − μ)². LayerNorm first makes z of it, and then y, with numbers γᵢ and βᵢ that are learned; "
        "ε is a small constant against division by 0:"
    )
    page.formula("zᵢ = (xᵢ − μ) / √(Var + ε)          yᵢ = γᵢ zᵢ + βᵢ")
    page.text(
        "Two sums of z are all that is needed. The deviations from a mean add up to 0, and their squares to d·Var:"
    )
    page.formula("Σ zᵢ  = 0", "Σ zᵢ² = Σ (xᵢ − μ)² / (Var + ε) = d·Var / (Var + ε)  ≈ d")
    page.text(
        "The norm (length) of z is the root of the second: √(d·Var/(Var + ε)), which is √d as long as Var is far "
        "above ε."
    )
    rows, worst_sum, worst_norm, plain_sum = [], 0.0, 0.0, 0.0
    for width in WIDTHS:
        x = 5 * torch.randn(500, width, generator=generator, dtype=torch.float64) + 3
        z, variance = normalise(x), x.var(-1, correction=0)
        norms, exact = z.norm(dim=-1), (width * variance / (variance + EPSILON)).sqrt()
        worst_sum = max(worst_sum, float(z.sum(-1).abs().max()))
        worst_norm = max(worst_norm, float((norms - exact).abs().max()))
        plain_sum = max(plain_sum, abs(float(norms.median()) - math.sqrt(width)))
        rows.append([width, f"{x.norm(dim=-1).median():.1f}", f"{norms.median():.3f}", f"{math.sqrt(width):.3f}"])
    page.table(["d", "norm of x (median of 500)", "norm of z (median)", "√d"], rows)
    page.check("Σ zᵢ = 0 for 500 random vectors of each width, to 1e-9", worst_sum < 1e-9, sum_of_z=worst_sum)
    page.check("their norms are √(d·Var/(Var + ε)), to 1e-9", worst_norm < 1e-9, norm_error=worst_norm)
    page.check("and the median norm is √d, to 0.001", plain_sum < 1e-3, from_sqrt_d=plain_sum)

    page.section("Two numbers: only their order is left")
    page.text(
        "For d = 2 and x = (a, b) the mean is (a + b)/2, so the deviations are t and −t with t = (a − b)/2, and Var = "
        "t²:"
    )
    page.formula("z = ( t/√(t² + ε),  −t/√(t² + ε) )  ≈  (1, −1) if a > b,  (−1, 1) if a < b;   a = b gives (0, 0)")
    pairs = torch.tensor([[5.0, 2.0], [2.0, 5.0], [-1.0, -9.0], [-9.0, -1.0], [4.0, 4.0]], dtype=torch.float64)
    z = normalise(pairs)
    page.table(
        ["x", "z"],
        [
            [f"({a:g}, {b:g})".replace("-", "−"), f"({c:.3f}, {d:.3f})".replace("-", "−")]
            for (a, b), (c, d) in zip(pairs.tolist(), (z + 0.0).tolist(), strict=True)
        ],
    )
    expected = torch.tensor([[1.0, -1], [-1, 1], [1, -1], [-1, 1], [0, 0]], dtype=torch.float64)
    off = float((z - expected).abs().max())
    page.check(
        "(1, −1) where the first is larger, (−1, 1) where the second is, (0, 0) where they are equal", off < 1e-4, two=z
    )
    page.mistake(
        """The signs of the elements have nothing to do with it: (−1, −9) gives (1, −1), because −1 is the larger.
        Nor is the sign the other way round. Student reports have both."""
    )

    page.section("With γ and β")
    page.text("Write out the square of y = γ∘z + β (∘: element by element) and sum:")
    page.formula("‖y‖² = Σ (γᵢzᵢ + βᵢ)² = Σ γᵢ²zᵢ² + 2 Σ γᵢβᵢzᵢ + Σ βᵢ²")
    page.text(
        "If γ and β are the same number for every i, the middle sum is 2γβ Σ zᵢ = 0, and the others are γ²d and dβ²:"
    )
    page.formula("‖y‖² = d (γ² + β²)          ‖y‖ = √d · √(γ² + β²)")
    width, x = 64, torch.randn(200, 64, generator=generator, dtype=torch.float64)
    z = normalise(x, 1e-12)
    gamma, beta = (torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(2))
    y = F.layer_norm(x, (width,), gamma, beta, eps=1e-12)
    error = float((y.norm(dim=-1) ** 2 - squared_norm(z, gamma, beta)).abs().max())
    page.check(
        "200 random vectors, random γ and β of 64 numbers each: the three sums are ‖y‖², to 1e-9",
        error < 1e-9,
        squares=error,
    )
    betas = np.linspace(0, 3, 13)
    ones = torch.ones(width, dtype=torch.float64)
    norms = [float(F.layer_norm(x, (width,), ones, float(b) * ones, eps=1e-12).norm(dim=-1).mean()) for b in betas]
    right, wrong = math.sqrt(width) * np.sqrt(1 + betas**2), math.sqrt(width) + betas
    page.check(
        "γ = 1 and 13 values of β from 0 to 3: the norm is √d·√(γ² + β²), to 1e-9",
        float(np.abs(norms - right).max()) < 1e-9,
    )
    page.check(
        f"γ√d + β is not: at β = 3 the norm is {norms[-1]:.2f}, and γ√d + β would be {wrong[-1]:.2f}",
        abs(norms[-1] - wrong[-1]) > 10,
        norm_at_beta_3=norms[-1],
        mistaken_norm_at_beta_3=wrong[-1],
    )
    page.mistake(
        """Student reports give the norm as γ√d + β, as if lengths added up. They do only for parallel vectors; β's
        vector, with the same number everywhere, is at a right angle to z, because Σ zᵢ = 0. So it is
        Pythagoras: √((γ√d)² + (β√d)²)."""
    )
    inside_a_real_model(page)
    page.draw(
        draw(betas, norms, right, wrong),
        """Left: z₁ of two numbers, against t = (a − b)/2 in units of √ε: a step, but for numbers that differ by no
        more than √ε. Right: the norm for d = 64, γ = 1: what was measured, Pythagoras, and the mistake.""",
    )


def inside_a_real_model(page: LessonPage) -> None:
    page.section(f"Inside {MODEL}")
    encoder, tokenizer = bundled_model()
    norms: dict[str, nn.Module] = {
        name: part for name, part in encoder.named_modules() if isinstance(part, nn.LayerNorm)
    }
    with watched(norms) as seen, torch.inference_mode():
        encoder(**tokenizer([SENTENCES[0]]).tensors())
    page.text(
        f"{MODEL} has {len(norms)} LayerNorms, d = {encoder.config.width}. While it reads “{SENTENCES[0]}” we keep "
        "what goes into each, and what comes out."
    )
    rows, worst, norm_of_z = _measure(encoder, seen)
    page.table(["LayerNorm", "mean γ", "mean |β|", "norm of y, smallest to largest", "norm of z (mean)"], rows)
    page.check(
        "for every token and LayerNorm the three sums are ‖y‖², to 1 in 10,000", worst < 1e-4, model_squares=worst
    )
    page.check("before γ and β every token has norm √256 = 16, to 0.01", norm_of_z < 0.01, model_norm_error=norm_of_z)
    furthest = max(abs(float(y.norm(dim=-1).max()) - 16) for _, y in seen.values())
    page.check(
        f"after them it has not, because the learned γ is not 1: some token's norm is {furthest:.1f} away from 16",
        furthest > 1,
        model_furthest=furthest,
    )


def _measure(encoder: Encoder, seen: dict[str, tuple[Tensor, Tensor]]) -> tuple[list[list[object]], float, float]:
    rows: list[list[object]] = []
    worst = from_root = 0.0
    for name, (x, y) in seen.items():
        part = encoder.get_submodule(name)
        assert isinstance(part, nn.LayerNorm)
        gamma, beta = part.weight.detach().double(), part.bias.detach().double()
        x, y = x[0].double(), y[0].double()
        z = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + part.eps).sqrt()
        squares, lengths = y.norm(dim=-1) ** 2, y.norm(dim=-1)
        worst = max(worst, float((squares / squared_norm(z, gamma, beta) - 1).abs().max()))
        undone = (y - beta) / gamma
        from_root = max(from_root, float((undone.norm(dim=-1) - math.sqrt(x.shape[-1])).abs().max()))
        span = f"{lengths.min():.1f} to {lengths.max():.1f}"
        rows.append(
            [f"`{name}`", f"{gamma.mean():.2f}", f"{beta.abs().mean():.2f}", span, f"{undone.norm(dim=-1).mean():.2f}"]
        )
    return rows, worst, from_root


def draw(betas: np.ndarray, norms: list[float], right: np.ndarray, wrong: np.ndarray) -> str:
    step = Panel("t/√ε,  t = (a − b)/2", "z₁", (-10, 10), (-1.1, 1.1), title="two numbers")
    t = np.linspace(-10, 10, 121)
    z = normalise(torch.tensor(np.stack([t, -t], 1) * math.sqrt(EPSILON)))[:, 0]
    step.line(list(zip(t.tolist(), z.tolist(), strict=True)), "z₁, computed")
    step.reference(x=0)
    norm = Panel("β", "norm of y", (0, 3), (5, 30), title="d = 64, γ = 1")
    norm.line(list(zip(betas.tolist(), right.tolist(), strict=True)), "√d·√(γ² + β²)", markers=0)
    norm.line(list(zip(betas.tolist(), wrong.tolist(), strict=True)), "γ√d + β (mistaken)", markers=6)
    norm.dots(list(zip(betas.tolist(), norms, strict=True)), "measured")
    return figure([step, norm], "LayerNorm of two numbers, and the norm with beta")
