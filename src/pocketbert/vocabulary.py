"""A WordPiece vocabulary learned from texts, the same one every time.

The `tokenizers` library can train one too, but two runs of its trainer give different vocabularies (it breaks ties
by the order of a hash map). Here ties go to the alphabetically first pair, so a study can be repeated to the bit.

The algorithm is byte-pair merging (Sennrich et al. 2016) over words, with "##" before every piece that continues
a word: start from single characters, again and again join the most frequent neighbouring pair.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from pocketbert.errors import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
LONGEST_WORD = 100  # longer ones become [UNK] when tokenising, so there is nothing to learn from them

Pair = tuple[str, str]


def count_words(texts: Iterable[str], *, lowercase: bool = True) -> Counter[str]:
    """How often each word occurs, after BERT's cleaning and splitting at spaces and punctuation."""
    normaliser, splitter = BertNormalizer(lowercase=lowercase), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normaliser.normalize_str(text)))
    return counts


def learn_vocabulary(
    texts: Iterable[str], size: int = 8_000, *, lowercase: bool = True, at_least: int = 2, alphabet: int = 1_000
) -> list[str]:
    """The tokens in order of their ids: the special ones, the characters, then what was joined, most useful first.

    Args:
        texts: what to learn from.
        size: at most so many tokens; fewer when the texts give no more.
        lowercase: an uncased vocabulary.
        at_least: pairs and characters that occur fewer times are not worth a row.
        alphabet: at most so many different characters.
    """
    words = {word: n for word, n in count_words(texts, lowercase=lowercase).items() if len(word) <= LONGEST_WORD}
    if not words:
        raise UserError("a vocabulary cannot be learned from texts without a single word")
    keep = _alphabet(words, at_least, alphabet)
    pieces = {
        word: [char if i == 0 else CONTINUES + char for i, char in enumerate(word)]
        for word in sorted(words)
        if keep.issuperset(word)
    }
    starts = sorted({split[0] for split in pieces.values()})
    rest = sorted({piece for split in pieces.values() for piece in split[1:]})
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *starts, *rest])
    if size <= len(tokens):
        raise UserError(
            f"vocabulary size {size:,} is too small: the special tokens and characters alone are {len(tokens):,}"
        )
    for joined in _merges(pieces, words, at_least):
        tokens[joined] = None
        if len(tokens) >= size:
            break
    return list(tokens)


def _alphabet(words: dict[str, int], at_least: int, most: int) -> set[str]:
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for char in word:
            counts[char] += n
    ranked = sorted(counts, key=lambda char: (-counts[char], char))[:most]
    return {char for char in ranked if counts[char] >= at_least} or set(ranked)


def _merges(pieces: dict[str, list[str]], words: dict[str, int], at_least: int) -> Iterable[str]:
    """The joined pieces, one after the other. Counts are kept up to date word by word, never made anew."""
    counts: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[str]] = defaultdict(set)
    for word, split in pieces.items():
        for pair in pairwise(split):
            counts[pair] += words[word]
            where[pair].add(word)
    queue = [(-n, pair) for pair, n in counts.items()]
    heapq.heapify(queue)
    while queue:
        negative, pair = heapq.heappop(queue)
        if counts[pair] != -negative:
            continue  # an old count; the current one is further down the queue
        if -negative < at_least:
            return
        joined = pair[0] + pair[1].removeprefix(CONTINUES)
        yield joined
        changed: set[Pair] = set()
        for word in where.pop(pair):
            split = pieces[word]
            for old in pairwise(split):
                counts[old] -= words[word]
                changed.add(old)
            pieces[word] = split = _join(split, pair, joined)
            for new in pairwise(split):
                counts[new] += words[word]
                where[new].add(word)
                changed.add(new)
        for other in changed:
            if counts[other] > 0:
                heapq.heappush(queue, (-counts[other], other))
            else:
                del counts[other]


def _join(split: list[str], pair: Pair, joined: str) -> list[str]:
    result, i = [], 0
    while i < len(split):
        if i + 1 < len(split) and (split[i], split[i + 1]) == pair:
            result.append(joined)
            i += 2
        else:
            result.append(split[i])
            i += 1
    return result
