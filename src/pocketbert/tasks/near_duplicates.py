"""Near-duplicates: texts so alike that a model trained on one has as good as seen the other.

Two rows are near-duplicates if their normalised texts are equal, or if the Jaccard similarity of their sets of word
3-grams is at least 0.8. Rows that hang together directly or through others are one cluster.

Not every pair is compared. Two sets that similar share one of their few rarest 3-grams (the prefix filter: Chaudhuri,
Ganti and Kaushik 2006; sizes: Bayardo, Ma and Srikant 2007), so rows are looked up by those alone. A 256-bit sketch per
row then refuses nearly all pairs that are left (Sandes, Teodoro and Melo 2020). No filter loses a pair; what remains is
counted.
"""

import hashlib
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from pocketbert.tasks.normalise import normalise
from pocketbert.tasks.task import Split

THRESHOLD = 0.8
GRAM = 3  # words
# Sketches that are compared at most: at least so many, and so many per rare 3-gram of a text. Reviews and NLI pairs
# need about one per 3-gram, a template with five slots 430. A hundred thousand texts of four words in ever new order
# need more: then the search ends early, and near-duplicates that it did not come to are missed.
COMPARISONS = 50_000_000
COMPARISONS_PER_GRAM = 1_000
CHUNK = 1 << 20  # pairs, or 3-grams of pairs, looked at together: bounds the memory
BETWEEN = "\t"  # stands between the two texts of a pair; no word is a tab
PADDING = -1  # makes a text of one or two words a single 3-gram
SEPARATORS = re.compile(
    r"(?:-[lr][rsc]b-|[\s\x00-/:-@\[-`{-\x7f\u00a1-\u00bf\u2000-\u206f\u3000-\u303f])+", re.IGNORECASE
)
SLACK = 1e-9  # bounds may let a pair through for nothing; they may not lose one to rounding


def group_near_duplicates(split: Split, threshold: float = THRESHOLD) -> np.ndarray:
    """One cluster number per row; near-duplicates have the same.

    The rows of a cluster, and its number, do not depend on the order of the rows. No near-duplicate is missed, unless
    so many texts share their rarest 3-grams that the search would be quadratic (`COMPARISONS`).

    Of pairs both texts count, as one sequence of words.

    Args:
        threshold: the Jaccard similarity, above 0 and at most 1, from which on two rows are near-duplicates.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"a Jaccard similarity is above 0 and at most 1, not {threshold}")
    hashes = split.hashes
    if not len(hashes):
        return np.zeros(0, dtype=np.int64)
    sets, set_of_row = _gram_sets(split.texts, split.second_texts)
    component = np.arange(len(sets))
    by_hash = np.argsort(hashes, kind="stable")
    same = hashes[by_hash[:-1]] == hashes[by_hash[1:]]
    component = _join(component, set_of_row[by_hash[:-1][same]], set_of_row[by_hash[1:][same]])
    component = _join_similar(sets, component, threshold)
    return _number(component[set_of_row], hashes)


def _number(components: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Clusters numbered from 0 in the order of their smallest text hash, which is the same in any order of rows."""
    smallest = np.full(int(components.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(smallest, components, hashes)
    return np.unique(smallest[components], return_inverse=True)[1].astype(np.int64)


# -- texts as sets of 3-grams ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _GramSets:
    """Different sets of 3-grams, one after the other; in each the rarest 3-gram comes first."""

    grams: np.ndarray  # numbers of 3-grams; the rarer one has the smaller number
    starts: np.ndarray  # where each set begins in `grams`, and the end
    shared: int  # 3-grams below this number occur in one set only

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.starts)

    @cached_property
    def _mixed(self) -> np.ndarray:
        return _mix(self.grams)

    @cached_property
    def sketches(self) -> np.ndarray:
        """(4, sets): 256 bits, of which each 3-gram sets one. Two sets differ in at least as many grams as bits."""
        bit = self._mixed >> np.uint64(56)
        columns = [
            np.bitwise_or.reduceat(
                np.where(bit >> np.uint64(6) == column, np.uint64(1) << (bit & np.uint64(63)), np.uint64(0)),
                self.starts[:-1],
            )
            for column in range(4)
        ]
        return np.stack(columns)

    @cached_property
    def smallest_hashes(self) -> np.ndarray:
        """One number per set (MinHash): the same for two sets with a probability of their Jaccard similarity."""
        return np.minimum.reduceat(self._mixed, self.starts[:-1])

    @cached_property
    def matrix(self) -> csr_array:
        shape = (len(self), int(self.grams.max()) + 1)
        return csr_array((np.ones(len(self.grams), dtype=np.int32), self.grams, self.starts), shape=shape)

    def similarities(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The Jaccard similarity of each pair."""
        common = self.matrix[first].multiply(self.matrix[second]).sum(axis=1)
        return common / (self.sizes[first] + self.sizes[second] - common)


class _WordNumbers(dict[str, int]):
    """A number for every word as it is written; spellings that normalise to one word share a number."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def __missing__(self, written: str) -> int:
        number = self.words.setdefault(normalise(written), len(self.words))
        self[written] = number
        return number

    def alphabetical(self) -> np.ndarray:
        """From each number to the word's place in the alphabet, from 1: the same whatever text came first."""
        places = np.empty(len(self.words), dtype=np.int64)
        places[[self.words[word] for word in sorted(self.words)]] = np.arange(1, len(self.words) + 1)
        return places


def _gram_sets(texts: Sequence[str], second_texts: Sequence[str] | None) -> tuple[_GramSets, np.ndarray]:
    """The different sets of 3-grams, and which of them each row has."""
    words, lengths = _words(texts, second_texts)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.flatnonzero(rows[: 1 - GRAM] == rows[GRAM - 1 :])
    hashes = _mix(_mix(_mix(words[begins]) + words[begins + 1]) + words[begins + 2])
    rows, grams = _distinct(rows[begins], np.unique(hashes, return_inverse=True)[1])

    starts = np.searchsorted(rows, np.arange(len(lengths) + 1))
    contents = memoryview(grams.tobytes())
    size = grams.itemsize
    digests = np.array(
        [
            int.from_bytes(hashlib.blake2b(contents[size * start : size * end], digest_size=7).digest(), "big")
            for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ]
    )
    _, representatives, set_of_row = np.unique(digests, return_index=True, return_inverse=True)
    number_of_row = np.full(len(lengths), -1)
    number_of_row[representatives] = np.arange(len(representatives))
    kept = number_of_row[rows] >= 0
    owners, grams = number_of_row[rows[kept]], grams[kept]

    counts = np.bincount(grams)
    rarest_first = np.argsort(counts, kind="stable")  # ties in the order of the alphabet
    rank = np.empty_like(rarest_first)
    rank[rarest_first] = np.arange(len(rank))
    owners, grams = _distinct(owners, rank[grams])
    starts = np.searchsorted(owners, np.arange(len(representatives) + 1))
    return _GramSets(grams, starts, shared=int((counts <= 1).sum())), set_of_row


def _words(texts: Sequence[str], second_texts: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the words of all rows, one row after the other, and how many each has: three at least."""
    numbers = _WordNumbers()
    words, lengths = array("q"), array("q")
    for row, text in enumerate(texts):
        found = _split_words(text, numbers)
        if second_texts is not None:
            found += [numbers[BETWEEN], *_split_words(second_texts[row], numbers)]
        found += [PADDING] * (GRAM - len(found))
        words.extend(found)
        lengths.append(len(found))
    places = np.append(numbers.alphabetical(), 0)  # the padding is -1: the last
    return places[np.frombuffer(words, dtype=np.int64)].astype(np.uint64), np.frombuffer(lengths, dtype=np.int64)


def _split_words(text: str, numbers: _WordNumbers) -> list[int]:
    """The words' numbers; a text of signs alone is one word, so that "!!!" and "???" stay two texts."""
    found = [numbers[word] for word in SEPARATORS.split(text) if word]
    return found or [numbers[text]]


def _distinct(rows: np.ndarray, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, gram) without repeats, sorted."""
    width = int(grams.max()) + 1
    both = np.sort(rows * width + grams)  # np.unique hashes, and is ten times slower on millions of numbers
    both = both[np.diff(both, prepend=-1) > 0]
    return both // width, both % width


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Numbers scattered over 64 bits (the finalizer of splitmix64)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# -- sets in clusters ------------------------------------------------------------------------------------------------


def _join(component: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The components after each pair of sets was connected."""
    if not len(first):
        return component
    count = len(component)
    links = coo_array((np.ones(len(first), dtype=np.int8), (component[first], component[second])), shape=(count, count))
    return connected_components(links, directed=False)[1][component]


def _join_similar(sets: _GramSets, component: np.ndarray, threshold: float) -> np.ndarray:
    """Connect the sets that are similar enough.

    All lists of sets that share a rare 3-gram are walked at once: each entry against the next one of its list, then
    against the one after it, and so on. In a list the sizes ascend, and equal sizes are ordered so that similar sets
    are mostly neighbours: a large cluster is one component after a few rounds, and its list is done.
    """
    grams, owners = _prefixes(sets, threshold)
    sizes = sets.sizes[owners]
    largest = np.floor(sizes / threshold + SLACK)
    starts, lengths = _runs(grams)
    ends = np.repeat(starts + lengths, lengths)
    active = np.arange(len(grams))
    budget = max(COMPARISONS, COMPARISONS_PER_GRAM * len(grams))
    offset = 0
    while budget > 0:
        offset += 1
        active = active[active + offset < ends[active]]
        active = active[sizes[active + offset] <= largest[active]]
        if not len(active):
            break
        if offset & (offset - 1) == 0:  # at powers of two: it costs a look at every entry
            of_entries = component[owners]
            one = np.minimum.reduceat(of_entries, starts) == np.maximum.reduceat(of_entries, starts)
            active = active[~np.repeat(one, lengths)[active]]
        budget -= len(active)
        for begin in range(0, len(active), CHUNK):
            chosen = active[begin : begin + CHUNK]
            first, second = owners[chosen], owners[chosen + offset]
            component = _join(component, *_similar(sets, first, second, component, threshold))
    return component


def _prefixes(sets: _GramSets, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """(gram, set) for the rarest 3-grams of each set, those apart that no other set has; sorted by gram, then size."""
    lengths = sets.sizes - np.ceil(threshold * sets.sizes - SLACK).astype(np.int64) + 1
    owners = np.repeat(np.arange(len(sets)), sets.sizes)
    position = np.arange(len(sets.grams)) - sets.starts[owners]
    chosen = (position < lengths[owners]) & (sets.grams >= sets.shared)
    grams, owners = sets.grams[chosen], owners[chosen]
    order = np.lexsort((owners, sets.smallest_hashes[owners], sets.sizes[owners], grams))
    return grams[order], owners[order]


def _similar(
    sets: _GramSets, first: np.ndarray, second: np.ndarray, component: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of these pairs, those that are similar enough and not yet connected."""
    apart = component[first] != component[second]
    first, second = first[apart], second[apart]
    allowed = (sets.sizes[first] + sets.sizes[second]) * ((1 - threshold) / (1 + threshold)) + SLACK
    for sketch in sets.sketches:  # a quarter of the bits at a time: the first leaves little for the others
        allowed = allowed - np.bitwise_count(sketch[first] ^ sketch[second])
        near = allowed >= 0
        first, second, allowed = first[near], second[near], allowed[near]
    pairs = np.unique(np.minimum(first, second) * len(sets) + np.maximum(first, second))
    first, second = pairs // len(sets), pairs % len(sets)
    found = np.zeros(len(first), dtype=bool)
    # Long texts in small portions: each holds about as many 3-grams as a chunk has pairs.
    portion = np.cumsum(sets.sizes[first] + sets.sizes[second]) // CHUNK
    for begin, length in zip(*_runs(portion), strict=True):
        part = slice(begin, begin + length)
        found[part] = sets.similarities(first[part], second[part]) >= threshold
    return first[found], second[found]


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of equal values begin, and how long they are."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return starts, np.diff(np.append(starts, len(values)))
