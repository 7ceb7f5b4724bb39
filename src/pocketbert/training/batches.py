"""Which rows share a batch, and how long it is. Batches of like length: almost no padding is computed.

Shuffle; sort by length inside windows of many batches; cut; shuffle the batches. Ties keep the shuffled order, so the
result depends on the seed alone.

A run of hours also wants its batches in few shapes. For every new one the library below torch prepares kernels, and
keeps the last thousand; they seem to lie in the midst of what a step frees, so that the next, of another shape, finds
no room there. With sizes of every kind, memory grew and grew (docs/performance.md).
"""

import numpy as np

WINDOW = 64  # batches that are sorted together: enough that lengths agree, few enough that batches stay random
KINDS = 16  # of lengths, and of counts, that are computed


def epoch_batches(
    lengths: np.ndarray, batch_size: int, random: np.random.Generator, *, group_by_length: bool = True
) -> list[np.ndarray]:
    """One epoch: every row once, in random batches."""
    order = random.permutation(len(lengths))
    if not group_by_length:
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


def round_up_to_bucket(count: int, most: int) -> int:
    """How long to make what must be so long: a little more, so that from 0 to `most` there are only `KINDS` of it."""
    step = max(1, -(-most // KINDS))
    rounded = -(-count // step) * step
    return min(rounded, most) if count <= most else rounded
