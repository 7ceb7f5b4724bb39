"""Lesson: sinusoidal and learned positions, and what an encoder is without any."""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from pocketbert.encoder import Encoder
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import MODEL, bundled_model
from pocketbert.tokenizer import Tokenizer

WIDTH = 64  # of the sinusoidal vectors here
TRAINED = 128  # pocket-mini never saw a longer text while it learned


def sinusoidal(positions: np.ndarray, width: int) -> np.ndarray:
    """(positions, width): a sine and a cosine of each of width/2 frequencies (Vaswani et al. 2017, section 3.5)."""
    angles = positions[:, None] * frequencies(width)  # (positions, width/2)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(positions), width)


def frequencies(width: int) -> np.ndarray:
    return 10000.0 ** (-np.arange(0, width, 2) / width)


def rotation(shift: int, width: int) -> np.ndarray:
    """The matrix that moves every position by `shift`: one rotation of the plane for each frequency."""
    matrix = np.zeros((width, width))
    for i, angle in enumerate(shift * frequencies(width)):
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix


def similarity_by_distance(table: np.ndarray, most: int) -> list[float]:
    """The mean cosine of vectors that are 0, 1, …, most positions apart."""
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = unit @ unit.T
    return [float(np.diagonal(cosines, offset=distance).mean()) for distance in range(most + 1)]


@lesson(
    "positions",
    "Positions: without them, a sentence is a bag of words",
    """A shift by k positions is the same rotation everywhere for sinusoidal vectors. BERT learns its position
    vectors instead. With these set to zero an encoder cannot see order: permuted tokens give permuted results,
    and nothing else changes.""",
)
def teach(page: LessonPage) -> None:
    page.section("Sines and cosines")
    page.text(
        "Position pos gets a vector of d numbers, in d/2 pairs. Pair i turns with a frequency ωᵢ of its own, from 1 "
        "(i = 0) down to almost 1/10000:"
    )
    page.formula(
        "ωᵢ = 1 / 10000^(2i/d)",
        "PE(pos, 2i) = sin(pos·ωᵢ)          PE(pos, 2i+1) = cos(pos·ωᵢ)          i = 0 … d/2 − 1",
    )
    page.text("The addition theorems say what happens k positions further on. With φ = k·ωᵢ:")
    page.formula(
        "sin(pos·ωᵢ + φ) =  cos φ · sin(pos·ωᵢ) + sin φ · cos(pos·ωᵢ)",
        "cos(pos·ωᵢ + φ) = −sin φ · sin(pos·ωᵢ) + cos φ · cos(pos·ωᵢ)",
    )
    page.text(
        "That is a rotation of the pair by the angle φ, which depends on k and not on pos. Each pair has length 1, "
        "since sin² + cos² = 1; so all vectors have norm √(d/2), and the product of two of them is Σᵢ cos(k·ωᵢ), a "
        "function of their distance k alone."
    )
    positions = np.arange(200)
    table = sinusoidal(positions, WIDTH)
    worst = max(float(np.abs(table[k:] - table[:-k] @ rotation(k, WIDTH).T).max()) for k in (1, 2, 7, 50))
    page.check(
        f"for k = 1, 2, 7, 50, one matrix R(k) moves all of 200 positions (d = {WIDTH}), to 1e-10",
        worst < 1e-10,
        rotation_error=worst,
    )
    norms = np.linalg.norm(table, axis=1)
    page.check(
        f"every norm is √(d/2) = {norms.mean():.3f}, to 1e-10", float(np.abs(norms - np.sqrt(WIDTH / 2)).max()) < 1e-10
    )
    products = table @ table.T
    spread = max(float(np.ptp(np.diagonal(products, offset=k))) for k in range(100))
    expected = max(
        abs(float(np.diagonal(products, offset=k)[0] - np.cos(k * frequencies(WIDTH)).sum())) for k in range(100)
    )
    page.check("products depend on the distance alone, and are Σ cos(k·ωᵢ), to 1e-9", max(spread, expected) < 1e-9)

    page.section("BERT's are learned")
    encoder, tokenizer = bundled_model()
    table_of_model = encoder.embeddings.position
    page.text(
        f"BERT has a table with one row per position, trained like everything else: {MODEL}'s has "
        f"{table_of_model.num_embeddings} rows of {table_of_model.embedding_dim} numbers. Nothing in it says that 5 "
        f"is next to 6. It learned that (from texts of at most {TRAINED} tokens, so we look at the first {TRAINED} "
        "rows):"
    )
    learned = table_of_model.weight.detach()[:TRAINED].double().numpy()
    ours, theirs = similarity_by_distance(learned, 60), similarity_by_distance(sinusoidal(np.arange(TRAINED), 256), 60)
    page.check(
        "the table is a parameter that gets gradients",
        isinstance(table_of_model.weight, nn.Parameter) and table_of_model.weight.requires_grad,
    )
    page.check(
        f"neighbours are more alike than others: the mean cosine is {ours[1]:.2f} at distance 1, {ours[10]:.2f} at "
        f"10, {ours[60]:.2f} at 60".replace("-", "−"),
        ours[1] > ours[10] > ours[60],
        learned_similarity=[ours[k] for k in (1, 10, 60)],
    )
    spread = float(np.std(np.diagonal(learned @ learned.T, offset=1)) / np.mean(np.diagonal(learned @ learned.T)))
    page.check(
        "unlike those of sines and cosines, products of learned rows do not depend on the distance alone: at distance "
        f"1 they spread by {100 * spread:.0f} % of a row's squared norm",
        spread > 0.01,
        learned_spread=spread,
    )
    page.mistake(
        "Sines and cosines are those of the first Transformer (Vaswani et al. 2017). BERT has a learned table instead."
    )

    order_blindness(page, encoder, tokenizer)
    waves = Panel("position", "number in the vector", (0, 60), (-1.1, 1.1), title="sine of three pairs", wide=340)
    for i in (2, 6, 10):
        waves.line(
            [(float(p), float(table[p, 2 * i])) for p in range(61)],
            f"i = {i}: ω = {frequencies(WIDTH)[i]:.3f}",
            markers=12,
        )
    alike = Panel("distance k", "mean cosine", (0, 60), (-0.2, 1), title="similarity by distance", wide=340)
    alike.line([(float(k), ours[k]) for k in range(61)], f"learned ({MODEL})", markers=12)
    alike.line([(float(k), theirs[k]) for k in range(61)], "sines and cosines, d = 256", markers=12)
    page.draw(
        figure([waves, alike], "Sinusoidal position vectors and similarity by distance"),
        f"Left: the sines of three pairs, d = {WIDTH}; slow ones tell far positions apart, quick ones near ones. "
        "Right: how alike two positions are, by their distance.",
    )


def order_blindness(page: LessonPage, encoder: Encoder, tokenizer: Tokenizer) -> None:
    page.section("Without positions")
    page.text(
        "In an encoder only the position vectors tell tokens' places apart. Attention sums over all tokens, and a sum "
        "has no order; everything else works on each token alone. So let P put the rows of X (one token each) in "
        "another order:"
    )
    page.formula("encoder without positions:   f(PX) = P f(X)          (permutation equivariance)")
    blind = copy.deepcopy(encoder)
    with torch.no_grad():
        blind.embeddings.position.weight.zero_()
    ids = tokenizer(["the dog bites the old man ."]).tensors()["input_ids"]
    order = torch.tensor([0, 6, 2, 5, 3, 1, 4, *range(7, ids.shape[1])])  # [CLS] stays first
    without, with_them = _moved(blind, ids, order), _moved(encoder, ids, order)
    page.check(
        "positions set to zero: tokens in another order give the same states in that order, to 1e-4",
        without < 1e-4,
        blind=without,
    )
    page.check("with them, states change by more than 0.1", with_them > 0.1, seeing=with_them)
    first, second = (tokenizer([text]).tensors() for text in ("the dog bites the man .", "the man bites the dog ."))
    changes = []
    for model in (blind, encoder):
        with torch.inference_mode():
            changes.append(float((model(**first).pooler_output - model(**second).pooler_output).norm()))
    page.check(
        "“the dog bites the man” and “the man bites the dog” have the same sentence vector without positions (to "
        "1e-4), and two different ones with them",
        changes[0] < 1e-4 < 0.01 < changes[1],
        distance_without=changes[0],
        distance_with=changes[1],
    )


@torch.inference_mode()
def _moved(encoder: Encoder, ids: Tensor, order: Tensor) -> float:
    """How far f(PX) is from P f(X)."""
    return float((encoder(ids[:, order]).last_hidden_state - encoder(ids).last_hidden_state[:, order]).abs().max())
