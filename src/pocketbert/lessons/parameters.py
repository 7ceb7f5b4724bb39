"""Lesson: counting BERT's parameters by hand."""

from torch import device, nn

from pocketbert.catalog import count_parameters
from pocketbert.config import SHAPES, Config
from pocketbert.heads import TwoLayerHead
from pocketbert.lessons.figure import Panel, figure
from pocketbert.lessons.lesson import LessonPage, lesson

PUBLISHED = {"base": 109_482_240, "large": 335_141_888}  # what others count for the released checkpoints, without heads
WITH_HEAD = 110_074_370  # BERT-base with a two-layer head for two labels, as a student report gives it


def embeddings_by_hand(config: Config) -> int:
    """Words, positions, segments; γ and β of the norm."""
    rows = config.vocabulary + config.positions + config.token_types
    return rows * config.width + 2 * config.width


def layer_by_hand(config: Config) -> int:
    """Query, key, value, output with biases; feed-forward there and back with biases; two norms."""
    h, f = config.width, config.inner
    attention = 4 * (h * h + h)
    feed_forward = (h * f + f) + (f * h + h)
    return attention + feed_forward + 2 * (2 * h)


def dense_by_hand(inputs: int, outputs: int) -> int:
    """A matrix and a bias."""
    return inputs * outputs + outputs


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@lesson(
    "parameters",
    "Parameters: where BERT's 110 million are",
    """BERT-base has 109,482,240 parameters with its pooler, and 110,074,370 with a two-layer head for two labels:
    counted by hand, and counted in the code.""",
)
def teach(page: LessonPage) -> None:
    base = SHAPES["base"]
    page.section("The parts of BERT-base")
    page.text(
        "V = 30,522 word pieces, P = 512 positions, 2 segments; H = 768 numbers per token; F = 4H = 3,072 in the "
        "middle of the feed-forward; L = 12 layers. A dense layer from n to m numbers has a matrix of n·m and a bias "
        "of m; a LayerNorm has γ and β, H each."
    )
    layer, table, pooler = layer_by_hand(base), embeddings_by_hand(base), dense_by_hand(768, 768)
    page.formula(
        f"embeddings    (V + P + 2)·H + 2H                          = {table:>11,}",
        f"one layer     4(H² + H) + (HF + F) + (FH + H) + 4H        = {layer:>11,}",
        f"all layers    12 times that                               = {12 * layer:>11,}",
        f"pooler        H² + H                                      = {pooler:>11,}",
        f"together                                                  = {table + 12 * layer + pooler:>11,}",
    )
    counts = count_parameters(base)
    parts = (("embeddings", table), ("encoder", 12 * layer), ("pooler", pooler))
    page.check(
        "each of these is what the encoder's own modules have", all(counts[name] == number for name, number in parts)
    )
    total = table + 12 * layer + pooler
    page.check(f"BERT-base: {total:,}", total == counts["parameters"] == PUBLISHED["base"], base=counts["parameters"])
    page.text("A two-layer head for two labels is a dense layer from 768 to 768 and one from 768 to 2:")
    head = dense_by_hand(768, 768) + dense_by_hand(768, 2)
    page.formula(f"{total:,} + (768² + 768) + (768·2 + 2) = {total:,} + {head:,} = {total + head:,}")
    with device("meta"):
        made = size(TwoLayerHead(768, 2))
    page.check(
        f"with that head, by hand and in the code: {counts['parameters'] + made:,}",
        made == head and counts["parameters"] + made == WITH_HEAD,
        base_with_two_layer_head=counts["parameters"] + made,
    )

    page.section("All six shapes")
    rows, agree = [], True
    for name, config in SHAPES.items():
        found = count_parameters(config)
        by_hand = (
            embeddings_by_hand(config)
            + config.layers * layer_by_hand(config)
            + dense_by_hand(config.width, config.width)
        )
        agree = agree and by_hand == found["parameters"]
        share = f"{100 * found['embeddings'] / found['parameters']:.0f} %"
        rows.append([name, config.layers, config.width, config.heads, by_hand, found["parameters"], share])
    page.table(["shape", "layers", "width", "heads", "by hand", "in the code", "of these, embeddings"], rows)
    page.check("by hand and in the code agree for all six", agree, by_shape={str(row[0]): row[5] for row in rows})
    page.check("BERT-large: 335,141,888", rows[-1][5] == PUBLISHED["large"])
    page.text(
        "The paper says 110 million and 340 million: rounded, and with the heads of pretraining or without. Counts "
        "that differ in the last digits mostly differ in pooler, heads or biases: say which you count."
    )
    page.mistake(
        """Heads of attention do not appear in these formulas: their number changes nothing (lesson heads). And in
        a small BERT most parameters are the word table: “a model of 4 million parameters” may have 0.4 million
        that compute."""
    )
    tiny = count_parameters(SHAPES["tiny"])
    page.check(
        f"in BERT-tiny, the layers have {tiny['encoder']:,} of {tiny['parameters']:,} parameters",
        tiny["encoder"] < 0.1 * tiny["parameters"],
    )
    page.draw(
        draw(),
        """Which share of the parameters is where: embeddings (left), layers, and, a thin piece at the
        right, the pooler. The smaller the BERT, the more of it is the word table.""",
    )


def draw() -> str:
    names = {float(index): name for index, name in enumerate(reversed(SHAPES))}
    panel = Panel("share of the parameters, %", "shape", (0, 100), (-0.6, 5.6), y_names=names, wide=560, left=90)
    for index, name in names.items():
        counts, left = count_parameters(SHAPES[name]), 0.0
        parts = (
            ("embeddings", "f0", counts["embeddings"]),
            ("layers", "f2", counts["encoder"]),
            ("", "f1", counts["pooler"]),
        )
        for label, kind, number in parts:
            share = 100 * number / counts["parameters"]
            panel.box((left, index - 0.32), (left + share, index + 0.32), kind)
            text = next((one for one in (f"{label} {share:.0f} %", f"{share:.0f} %") if share > 1.7 * len(one)), "")
            if label and text:
                panel.write((left + share / 2, index), text, on=kind)
            left += share
    return figure([panel], "Shares of embeddings, layers and pooler in six BERTs")
