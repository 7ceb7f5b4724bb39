"""Lesson: softmax turns scores into probabilities, and reads nothing but their differences."""

import numpy as np
import torch

from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson

SCORES = (2.0, 1.0, 0.0)


def softmax(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Written out. The largest score is taken off first: the result is the same, and no power overflows."""
    powers = np.exp((scores - scores.max()) / temperature)
    return powers / powers.sum()


def softmax_without_shift(scores: np.ndarray) -> np.ndarray:
    """The formula as it stands in books; e⁷¹⁰ is more than a double can hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(scores)
        return powers / powers.sum()


def entropy(shares: np.ndarray) -> float:
    """In nats; 0 · log 0 counts as 0."""
    return float(-sum(share * np.log(share) for share in shares if share > 0))


@lesson(
    "softmax",
    "Softmax: probabilities from differences of scores",
    """softmax(2, 1, 0) = (0.665, 0.245, 0.090). Only differences of scores matter: adding a number to all of them
    changes nothing. Dividing them by a temperature T goes from "only the largest" (T → 0) to "all alike" (T →
    ∞).""",
)
def teach(page: LessonPage) -> None:
    scores = np.array(SCORES)
    shares = softmax(scores)
    page.section("The formula")
    page.text("A score sᵢ is any number; there are n of them, s₁ … sₙ. Softmax makes shares pᵢ of them:")
    page.formula("pᵢ = exp(sᵢ) / Σⱼ exp(sⱼ)          j runs over all n scores")
    page.text(
        "exp is positive, so every pᵢ is; and the sum below is the sum of what stands above, so the shares add up to "
        f"1. For the scores (2, 1, 0): {', '.join(f'exp({score:g}) = {np.exp(score):.3f}' for score in SCORES)}, "
        f"together {np.exp(scores).sum():.3f}; divide each by that."
    )
    shown = ", ".join(f"{share:.3f}" for share in shares)
    page.check(
        f"softmax(2, 1, 0) = ({shown})", np.abs(shares - [0.665, 0.245, 0.090]).max() < 5e-4, softmax_2_1_0=shares
    )
    page.check("they add up to 1", abs(shares.sum() - 1) < 1e-12)
    drawn = np.random.default_rng(0).normal(0, 3, (200, 12))
    worst = max(float(np.abs(softmax(row) - torch.tensor(row).softmax(0).numpy()).max()) for row in drawn)
    page.check("on 200 random rows of 12 scores it is torch's softmax, to 1e-12", worst < 1e-12, from_torch=worst)

    page.section("Only differences matter")
    page.text("Divide one share by another, and everything but the two scores falls out:")
    page.formula("pᵢ / pⱼ = exp(sᵢ) / exp(sⱼ) = exp(sᵢ − sⱼ)")
    page.text(
        "So a number c that is added to all scores changes nothing: (sᵢ + c) − (sⱼ + c) = sᵢ − sⱼ. That is also how "
        "it is computed: take c = −(largest score), and the largest power is exp(0) = 1, whatever the scores are."
    )
    moved = max(float(np.abs(softmax(scores + c) - shares).max()) for c in (-1000.0, -5.0, 3.0, 1000.0))
    page.check("adding −1000, −5, 3 or 1000 to the scores changes no share by 1e-12", moved < 1e-12, moved=moved)
    naive = softmax_without_shift(scores + 1000)
    page.check(
        "without taking the largest off, exp(1002) overflows and the shares are no numbers", bool(np.isnan(naive).all())
    )
    ratio = float(shares[0] / shares[1])
    page.check(f"p₁ / p₂ = exp(2 − 1) = {ratio:.3f}", abs(ratio - np.e) < 1e-9, ratio=ratio)

    page.section("Temperature")
    page.text(
        "Divide the scores by T before softmax. By the line above, pᵢ / pⱼ = exp((sᵢ − sⱼ)/T): a small T makes "
        "differences large, a large T makes them small. How even the shares are is told by the entropy H = −Σᵢ pᵢ log "
        "pᵢ, from 0 (one has everything) to log n (all alike; log 3 = 1.099)."
    )
    temperatures = np.geomspace(0.1, 20, 60)
    rows = [softmax(scores, t) for t in temperatures]
    even = [entropy(row) for row in rows]
    at = {t: softmax(scores, t) for t in (0.1, 0.5, 1.0, 2.0, 20.0)}
    page.table(
        ["T", "p₁", "p₂", "p₃", "entropy"],
        [[f"{t:g}", *(f"{share:.3f}" for share in row), f"{entropy(row):.3f}"] for t, row in at.items()],
    )
    page.check("the entropy grows with T at each of 60 temperatures from 0.1 to 20", bool(np.all(np.diff(even) > 0)))
    page.check("T = 0.1 gives the largest score all but 0.0001", at[0.1][0] > 0.9999, coldest=at[0.1])
    page.check(
        "T = 20 is within 0.04 of one third each", float(np.abs(at[20.0] - 1 / 3).max()) < 0.04, hottest=at[20.0]
    )
    panel = Panel("temperature T (logarithmic)", "share p", (0.1, 20), (0, 1), log_x=True, wide=460)
    for index, score in enumerate(SCORES):
        panel.line(
            [(float(t), float(row[index])) for t, row in zip(temperatures, rows, strict=True)], f"score {score:g}"
        )
    panel.reference(x=1.0)
    page.draw(
        figure([panel], "Shares of three scores against temperature"),
        """The three shares against T: from "only the largest", left, towards one third each, right. The dotted
        line is T = 1, plain softmax.""",
    )
    twice = softmax(2 * scores)
    page.mistake(
        "Softmax is not “divide by the sum”: that would make (0.667, 0.333, 0) of (2, 1, 0), and fails for negative "
        "scores. Nor do only ratios matter: doubling all scores is T = ½, and gives "
        f"({', '.join(f'{share:.3f}' for share in twice)})."
    )
    page.check("doubling the scores is T = ½", float(np.abs(twice - softmax(scores, 0.5)).max()) < 1e-12, doubled=twice)
