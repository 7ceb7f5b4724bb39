"""When two texts are the same text: spelling aside, and as one number.

A text is normalised once; what is made of it (`Split.hashes`) goes along with the rows wherever they go.
"""

import hashlib
import string
import unicodedata
from collections.abc import Iterable

import numpy as np

_DROP = bytes(set(range(128)) - set((string.ascii_lowercase + string.digits).encode()))
_BRACKETS = ("-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-")  # how treebanks write ( ) [ ] { }


def normalise(text: str) -> str:
    """A text's letters and digits alone: no case, accents, spaces or punctuation.

    Tokenised and plain spellings ("it 's n't" and "it's n't") become one string. A text without letters or
    digits keeps its signs, so that "!!!" and "???" stay two texts.
    """
    lower = text.lower()
    if "-l" in lower or "-r" in lower:
        for bracket in _BRACKETS:
            lower = lower.replace(bracket, " ")
    if lower.isascii():
        kept = lower.encode().translate(None, _DROP).decode()
    else:
        # Latin, Greek and Cyrillic accents go; the vowel signs of other scripts are letters of their own
        # and stay.
        kept = "".join(
            char
            for char in unicodedata.normalize("NFKD", lower)
            if char.isalnum() or (unicodedata.category(char)[0] == "M" and not "\u0300" <= char <= "\u036f")
        ).lower()
    return kept or " ".join(lower.split())


def hash_keys(keys: Iterable[str]) -> np.ndarray:
    """One 64-bit number per key, the same on every machine."""
    digests = bytearray()
    for key in keys:
        digests += hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)
