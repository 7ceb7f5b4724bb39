"""Lesson: no line separates XOR; one hidden layer does."""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson

CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR = (0, 1, 1, 0)
HIDDEN, STEPS, SEEDS = 4, 400, 10
INFEASIBLE, SOLVED = 2, 0  # what scipy calls them


def separable(labels: tuple[int, ...]) -> bool:
    """Is there a line w·x + b with all 1s on its positive and all 0s on its negative side? By linear programming."""
    signs = 2 * np.array(labels) - 1
    rows = -signs[:, None] * np.column_stack([CORNERS, np.ones(4)])  # sign · (w·x + b) ≥ 1, for each corner
    status = linprog(np.zeros(3), A_ub=rows, b_ub=-np.ones(4), bounds=[(None, None)] * 3).status
    if status not in (SOLVED, INFEASIBLE):
        raise ArithmeticError(f"linear programming gave up: status {status}")
    return status == SOLVED


def activation(x: Tensor) -> Tensor:
    return torch.tanh(x)


class Networks:
    """Two inputs, a hidden layer, one output, for several seeds at once: a number above 0 says 1."""

    def __init__(self, seeds: int, hidden: int = HIDDEN) -> None:
        shapes = ((2, hidden), (1, hidden), (hidden, 1), (1, 1))
        drawn = [
            [np.random.default_rng([seed, n]).normal(size=shape) for seed in range(seeds)]
            for n, shape in enumerate(shapes)
        ]
        self.parameters = [torch.tensor(np.stack(part), requires_grad=True) for part in drawn]

    def __call__(self, x: Tensor) -> Tensor:
        inner_w, inner_b, outer_w, outer_b = self.parameters
        return (activation(x @ inner_w + inner_b) @ outer_w + outer_b)[:, :, 0]  # (seeds, points)

    def train(self) -> list[int]:
        """Gradient descent with Adam; how many of the four corners each seed has right at the end."""
        x, wanted = torch.tensor(CORNERS), torch.tensor(XOR, dtype=torch.float64)
        optimizer = torch.optim.Adam(self.parameters, lr=0.05)
        for _ in range(STEPS):
            said = self(x)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(said, wanted.expand_as(said), reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            return ((self(x) > 0) == (wanted > 0)).sum(1).tolist()


@lesson(
    "xor",
    "XOR: no line does it, one hidden layer does",
    """No line separates the points where exactly one of two inputs is 1 from the others (linear programming finds
    none). A network with one hidden layer learns it.""",
)
def teach(page: LessonPage) -> None:
    page.section("Why there is no line")
    page.text(
        "XOR(x₁, x₂) is 1 if exactly one of x₁ and x₂ is 1, else 0. A perceptron says 1 where f(x) = w₁x₁ + w₂x₂ + b "
        "is positive; it learns the numbers w₁, w₂ and b. It would need"
    )
    page.formula("f(0,1) > 0,   f(1,0) > 0,   f(0,0) < 0,   f(1,1) < 0")
    page.text("But the first two and the last two have the same sum, whatever w₁, w₂ and b are:")
    page.formula("f(0,1) + f(1,0) = w₁ + w₂ + 2b = f(0,0) + f(1,1)")
    page.text(
        "One side would be positive and the other negative: a contradiction. Linear programming finds such a line if "
        "there is any:"
    )
    found = {labels: separable(labels) for labels in product((0, 1), repeat=4)}
    page.check("linear programming proves that there is none for XOR", not found[XOR])
    page.check("and finds one for AND and for OR", found[(0, 0, 0, 1)] and found[(0, 1, 1, 1)])
    count = sum(found.values())
    page.check(
        f"of the 16 functions of two bits, {count} have a line; the two without are XOR and its opposite",
        [labels for labels, one in found.items() if not one] == [XOR, (1, 0, 0, 1)],
        separable=count,
    )
    closest, line = best_line()
    page.check(f"the best of 50,000 random lines has {closest} of 4 corners right", closest == 3, best_line=closest)

    page.section("With a hidden layer")
    page.text("Two hidden units are enough, and can be written down, with relu(t) = max(t, 0):")
    page.formula("XOR(x₁, x₂) = relu(x₁ + x₂) − 2·relu(x₁ + x₂ − 1)")
    total = CORNERS.sum(1)
    by_hand = np.maximum(total, 0) - 2 * np.maximum(total - 1, 0)
    page.check(
        f"at the four corners that is {', '.join(f'{value:g}' for value in by_hand)}",
        tuple(by_hand) == XOR,
        by_hand=by_hand,
    )
    networks = Networks(SEEDS)
    right = networks.train()
    page.check(
        f"a network with {HIDDEN} hidden units (tanh), from random weights, learns all four corners from "
        f"{right.count(4)} of {SEEDS} seeds in {STEPS} steps",
        right.count(4) >= SEEDS - 2,
        corners_right=right,
    )
    page.mistake(
        """XOR is not “too hard for neural networks”: it is too hard for one layer. And a hidden layer alone is not
        the point either: without a non-linear function in it, it is one layer again (lesson linear-collapse)."""
    )
    panels = [
        Panel("x₁", "x₂", (-0.5, 1.5), (-0.5, 1.5), title=title, wide=290) for title in ("a line", "a hidden layer")
    ]
    shown = right.index(max(right))
    regions = [lambda x: x @ torch.tensor(line[:2]) + line[2], lambda x: networks(x)[shown]]
    for panel, region in zip(panels, regions, strict=True):
        shade(panel, region)
        panel.dots([(x, y) for (x, y), label in zip(CORNERS.tolist(), XOR, strict=True) if label], "XOR is 1", style=1)
        panel.dots(
            [(x, y) for (x, y), label in zip(CORNERS.tolist(), XOR, strict=True) if not label], "XOR is 0", style=0
        )
    page.draw(
        figure(panels, "Where a line and where a network with a hidden layer say 1"),
        """Where each says 1 (grey). Left: the best of the random lines; one corner is on the wrong side. Right:
        one of the networks that learned it.""",
    )


def best_line(tries: int = 50_000) -> tuple[int, np.ndarray]:
    """Of many random lines, one with the most corners right; of these, the one furthest from all corners."""
    lines = np.random.default_rng(0).normal(size=(tries, 3))
    lines /= np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
    values = lines @ np.column_stack([CORNERS, np.ones(4)]).T  # (tries, 4)
    right = ((values > 0) == np.array(XOR, dtype=bool)).sum(1)
    order = np.lexsort((np.abs(values).min(1), right))
    return int(right.max()), lines[order[-1]]


def shade(panel: Panel, region: Callable[[Tensor], Tensor], cells: int = 50) -> None:
    """Grey where the function is above 0: one rectangle for each run of cells in a row."""
    edges = np.linspace(-0.5, 1.5, cells + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    for row, y in enumerate(middles):
        with torch.no_grad():
            inside = region(torch.tensor([[x, y] for x in middles])).numpy() > 0
        changes = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
        for begin, end in zip(changes[::2], changes[1::2], strict=True):
            panel.box((edges[begin], edges[row]), (edges[end], edges[row + 1]), "ink", 0.22)
