"""Which rows share a batch, and how long it is. Batches of like length: almost no padding is computed.

Shuffle; sort by length inside windows of many batches; cut; shuffle the batches. Ties keep the shuffled order, so the
result depends on the seed alone.

A run of many hours also wants its batches in few shapes. Every new one makes the libraries below torch prepare and keep
a kernel, and leaves holes in memory that the next does not fit into: with sizes of every kind, memory grows and grows.
"""

import numpy as np

WINDOW = 64  # batches that are sorted together: enough that lengths agree, few enough that batches stay random
LENGTHS = 4  # lengths are rounded up to multiples of this
SIZES = 16  # and counts to so many sizes from one power of two to the next


def epoch_batches(
    lengths: np.ndarray, batch_size: int, random: np.random.Generator, *, like_length: bool = True
) -> list[np.ndarray]:
    """One epoch: every row once, in random batches."""
    order = random.permutation(len(lengths))
    if not like_length:
        return [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
    batches = []
    window = WINDOW * batch_size
    for begin in range(0, len(order), window):
        rows = order[begin : begin + window]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def by_length(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """All rows, sorted by length, for reading alone: the caller puts the results back in order."""
    order = np.argsort(lengths, kind="stable")
    return [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]


def count_batches(rows: int, batch_size: int) -> int:
    return -(-rows // batch_size)


def even_length(longest: int, most: int) -> int:
    """How long to make a batch whose longest row is so long, and which must not be longer than `most`."""
    return min(most, -(-longest // LENGTHS) * LENGTHS)


def even_count(count: int) -> int:
    """How many to compute where so many are needed: at most a sixteenth more."""
    step = 1 << max(0, (count // SIZES).bit_length() - 1)
    return -(-count // step) * step
