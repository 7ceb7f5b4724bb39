"""Useful floating point: what a step must compute, counted by hand, whatever the program really does.

Only matrix products count, for real tokens alone: padding, masks, softmax, norms and the optimiser are overhead. A
product of (n, k) and (k, m) is 2nkm operations; the backward pass costs two products for each of the forward's.
"""

from collections.abc import Iterable

from pocketbert.config import Config


def layer_forward(config: Config, tokens: int, *, only_first: bool = False) -> int:
    """One layer over one sentence. `only_first`: the first token alone asks, each matrix is applied once."""
    width, inner = config.width, config.inner
    asking = 1 if only_first else tokens
    query = 2 * asking * width * width
    key_value = 2 * asking * width * 2 * width
    heads = config.heads if only_first else 1  # a head of one query reads whole states; else heads share the width
    attention = 2 * (2 * asking * tokens * width * heads)  # scores, and the mix of values; all heads together
    output = 2 * asking * width * width
    feed_forward = 2 * (2 * asking * width * inner)
    return query + key_value + attention + output + feed_forward


def sentence_forward(config: Config, tokens: int, *, labels: int = 2, only_cls: bool = True) -> int:
    """All layers, the pooler and the head over one sentence."""
    layers = (config.layers - 1) * layer_forward(config, tokens) + layer_forward(config, tokens, only_first=only_cls)
    return layers + 2 * config.width * config.width + 2 * config.width * labels


def training_flops(config: Config, lengths: Iterable[int], *, labels: int = 2, only_cls: bool = True) -> int:
    """Forward and backward over sentences of these lengths."""
    return 3 * sum(sentence_forward(config, int(n), labels=labels, only_cls=only_cls) for n in lengths)
