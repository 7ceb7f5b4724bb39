"""Lesson: several heads cost what one costs, and do what one cannot."""

import torch
from torch import Tensor

from pocketbert.catalog import count_parameters
from pocketbert.config import SHAPES, Config
from pocketbert.encoder import Attention, Encoder, initialise
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson
from pocketbert.lessons.material import attentions_of

WIDTH = 8  # a token is (a, b, is it the first?, is it the second?, 0, 0, 0, 0)
STEPS, SEEDS = 250, 3


def small_attention(heads: int, seed: int = 0) -> Attention:
    """The encoder's own attention, 8 wide."""
    config = Config(vocabulary=2, width=WIDTH, layers=1, heads=heads, inner=8, dropout=0.0, attention_dropout=0.0)
    with torch.device("meta"):
        attention = Attention(config)
    initialise(attention, WIDTH**-0.5, seed)
    return attention


def examples(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two tokens with two random numbers each, and what is wanted of them: a of the first, b of the second."""
    numbers = torch.randn(rows, 2, 2, generator=torch.Generator().manual_seed(seed))
    places = torch.eye(2).expand(rows, 2, 2)
    tokens = torch.cat([numbers, places, torch.zeros(rows, 2, WIDTH - 4)], dim=2)  # (rows, 2, 8)
    return tokens, torch.stack([numbers[:, 0, 0], numbers[:, 1, 1]], dim=1)  # (rows, 2)


def set_by_hand(attention: Attention) -> None:
    """Two heads: the first looks at the first token and hands over a, the second at the second, and hands over b."""
    sharp = 60.0
    with torch.no_grad():
        for part in attention.parameters():
            part.zero_()
        _, key, value = attention.query_key_value.weight.chunk(3)  # (8, 8) each; rows 0–3 are the first head's
        query_bias = attention.query_key_value.bias[:WIDTH]
        query_bias[0], query_bias[4] = sharp, sharp  # every token asks the same
        key[0, 2], key[4, 3] = 1.0, 1.0  # found: the first token by the first head, the second by the second
        value[0, 0], value[4, 1] = 1.0, 1.0  # handed over: a by the first head, b by the second
        attention.output.weight[0, 0], attention.output.weight[1, 4] = 1.0, 1.0


BY_PLACE = (slice(0, 2 * WIDTH), slice(0, 2))  # where queries and keys read the numbers
FROM_PLACE = (slice(2 * WIDTH, None), slice(2, 4))  # where values read the place


def train(attention: Attention, seed: int, without: tuple[slice, slice] | None = None) -> float:
    """Adam on fresh random examples; the mean squared error on others. `without`: weights that stay 0."""
    weight = attention.query_key_value.weight
    optimizer = torch.optim.Adam(attention.parameters(), lr=0.02)
    for step in range(STEPS):
        if without is not None:
            with torch.no_grad():
                weight[without] = 0.0
        tokens, wanted = examples(128, seed=1000 * seed + step)
        loss = (attention(tokens, None)[0][:, 0, :2] - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if without is not None:
        with torch.no_grad():
            weight[without] = 0.0
    return error(attention)


@torch.no_grad()
def error(attention: Attention) -> float:
    tokens, wanted = examples(2000, seed=10**6)
    return float((attention(tokens, None)[0][:, 0, :2] - wanted).pow(2).mean())


@lesson(
    "heads",
    "Heads: the same parameters, several places at once",
    """BERT-base has 12 heads of 768/12 = 64; query, key and value of one layer are 768²·3 = 1,769,472 weights,
    with any number of heads. Two heads can fetch different things from two places; one head that goes by place
    cannot.""",
)
def teach(page: LessonPage) -> None:
    page.section("What they cost")
    base = SHAPES["base"]
    counts = count_parameters(base)
    page.text(
        "A layer of BERT-base turns H = 768 numbers per token into a query, a key and a value of 768 numbers each: "
        "three matrices of 768 x 768. With A = 12 heads the columns of each are dealt out, 768/12 = 64 to each head. "
        "Dealing out adds nothing:"
    )
    page.formula(
        "d_head = H / A = 768 / 12 = 64          A · (H · d_head) · 3 = 3 H² = 1,769,472, whatever A is "
        "(biases: 3H more)"
    )
    page.check(
        f"the width of a head of BERT-base is {counts['head_size']}",
        counts["head_size"] == 64,
        head_size=counts["head_size"],
    )
    weights = attentions_of(Encoder(base, seed=None))[0].query_key_value.weight.numel()
    page.check(
        f"query, key and value of one layer of the encoder have {weights:,} weights",
        weights == 1_769_472,
        qkv_weights=weights,
    )
    sizes = {
        heads: count_parameters(Config(width=768, layers=12, heads=heads, inner=3072))["parameters"]
        for heads in (1, 2, 4, 12, 16)
    }
    page.check(
        f"with 1, 2, 4, 12 or 16 heads BERT-base has the same {sizes[12]:,} parameters",
        len(set(sizes.values())) == 1,
        parameters_by_heads=sizes,
    )

    page.section("What one head cannot do")
    page.text(
        "Two tokens carry two numbers each, (a₁, b₁) and (a₂, b₂), all four drawn independently with mean 0 and "
        "variance 1. Wanted is (a₁, b₂): one number from each. A head that goes by the tokens' places has one weight "
        "p for the first token and 1 − p for the second, for both numbers. To give a₁ it can do no better than u "
        "times the mixture of the a's, with some factor u that it learns (what it adds of the b's, or a constant, is "
        "only error). The mean squared error (E: the mean over draws) of that, and of the like for b₂ with a factor v:"
    )
    page.formula(
        "E(u·(p a₁ + (1 − p) a₂) − a₁)² = (up − 1)² + u²(1 − p)²        smallest, at u = p/n:       1 − p²/n",
        "E(v·(p b₁ + (1 − p) b₂) − b₂)² = (v(1 − p) − 1)² + v²p²        smallest, at v = (1 − p)/n:  1 − (1 − p)²/n",
        "with n = p² + (1 − p)².   Together: 2 − (p² + (1 − p)²)/n = 2 − 1 = 1,  so ½ per number, whatever p is",
    )
    page.text(
        "One head cannot be better than ½; to say 0 always has 1. Two heads have two weights, and need no compromise."
    )
    trained = [small_attention(1, seed) for seed in range(SEEDS)]
    one = [train(attention, seed, BY_PLACE) for seed, attention in enumerate(trained)]
    two = small_attention(2)
    set_by_hand(two)
    right = error(two)
    same = sum(p.numel() for p in small_attention(1).parameters()), sum(p.numel() for p in two.parameters())
    page.check(
        f"one head and two heads, {WIDTH} wide, have the same {same[0]} parameters",
        same[0] == same[1],
        parameters=same[0],
    )
    page.check(
        f"one head, trained for {STEPS} steps of Adam from {SEEDS} seeds, comes to {min(one):.2f} at best, on 2,000 "
        "random examples",
        0.45 < min(one) < 0.6,
        one_head_errors=one,
    )
    page.check(
        "two heads, set by hand (the first looks at the first token and hands over a, the second at the second, and "
        "hands over b), have an error below 1e-6",
        right < 1e-6,
        two_heads_error=right,
    )
    loose = [[train(small_attention(heads, seed), seed) for seed in range(SEEDS)] for heads in (1, 2)]
    page.text(
        "That is for weights that go by place. If queries and keys may also read the numbers, one head has a way "
        "round: it lets p follow the numbers a little, and reads p off again from values that differ by place. (We "
        "found that by training it, not by thinking.)"
    )
    page.check(
        f"trained without that restriction, one head comes to {min(loose[0]):.3f}, two heads to {min(loose[1]):.3f} "
        f"(best of {SEEDS} seeds)",
        min(loose[1]) < min(loose[0]) / 4 and min(loose[0]) < 0.5,
        one_head_unrestricted=loose[0],
        two_heads_unrestricted=loose[1],
    )
    barred = [train(small_attention(1, seed), seed, FROM_PLACE) for seed in range(SEEDS)]
    page.check(
        f"with that way barred (values that do not read the place), one head is back at {min(barred):.2f}",
        min(barred) > 5 * min(loose[0]),
        one_head_way_barred=barred,
    )
    tokens, wanted = examples(60, seed=5)
    best = trained[one.index(min(one))]
    panels = []
    for attention, title in ((best, "one head, trained, by place"), (two, "two heads, set by hand")):
        with torch.no_grad():
            given = attention(tokens, None)[0][:, 0, :2]
        panel = Panel("wanted", "given", (-3, 3), (-3, 3), title=title, wide=300)
        panel.line([(-3, -3), (3, 3)], "given = wanted", markers=0, style=4)
        for column, name in enumerate(("a₁", "b₂")):
            panel.dots(
                list(zip(wanted[:, column].tolist(), given[:, column].tolist(), strict=True)), name, style=column
            )
        panels.append(panel)
    page.draw(
        figure(panels, "What one head and two heads give against what is wanted"),
        """60 random examples: what is given against what is wanted. On the line both agree. One head mixes; two
        heads fetch each number from its place.""",
    )
    page.mistake(
        """More heads are not more parameters, and d_head is not a free choice beside them: it is H / A. What more
        heads buy is more maps, at the price of narrower ones."""
    )
