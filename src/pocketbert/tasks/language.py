"""Does a model's vocabulary know the language of these texts? Words that it does not know fall into tiny pieces.

BERT reads any text: a language that its vocabulary does not know becomes [UNK], or pieces of one or two letters, and a
model learns next to nothing from them, without a word. So words are counted that are broken up: of English texts and an
English vocabulary about 1 in 20 (1 in 4 where a third of the words is misspelt), of German ones 6 to 8 in 10, of
Burmese ones nearly all. A vocabulary that breaks up English as well (one of another language, or a toy) says nothing
here: what is foreign to it, only its own texts could tell.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pocketbert.tasks.task import Split
from pocketbert.tokenizer import Tokenizer

MOST_TEXTS = 1_000  # that are looked at, from all over the split
MOST_WORDS = 20_000
MOST_CHARACTERS = 300  # of a text
SHORTEST = 4  # letters: shorter words are in every vocabulary of an alphabet, whatever their language
WORDS_OF_A_TEXT = 4  # so many, or nothing is said about the text
TEXTS, WORDS = 30, 12  # so many that something can be said about, or nothing is said about the split
BROKEN = 3.0  # letters per piece: a word below is broken up
SPELT = 1.3  # letters per piece, in scripts whose letters are syllables or consonants
FOREIGN = 0.5  # of a text's words, or of all words, are broken up: they are foreign to the vocabulary
MANY = 0.2  # of the texts are: it is said
KNOWS_ENGLISH = 0.25  # of the words below are broken up, at most, by a vocabulary that knows English

ENGLISH = (
    "people often write about what happened yesterday, because something went wrong with their order and nobody "
    "answered the phone. others say that they really enjoyed the story, although several scenes were rather long. "
    "this water bottle never leaked during our trip through the mountains, and the small pocket holds another one. "
    "when government officials reported higher prices last month, many families started buying less food than before. "
    "please send me another copy of the contract, since important pages are missing from those you have sent already."
)
ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN")
SKIPPED = re.compile(r"\S*(?://|www\.|@)\S*|#\S+")  # addresses, names of people, tags of many words


@dataclass(frozen=True)
class LanguageFit:
    """How well a vocabulary knows some texts."""

    texts: int  # that something can be said about
    foreign: float  # share of them
    words: int
    broken: float  # share of all words that are [UNK] or fall into tiny pieces

    @property
    def is_foreign(self) -> bool:
        by_text = self.texts >= TEXTS and self.foreign >= MANY
        return by_text or (self.words >= WORDS and self.broken >= FOREIGN)


def language_fit(split: Split, tokenizer: Tokenizer) -> LanguageFit:
    """What share of a split's texts is foreign to a vocabulary; nothing where English is foreign to it, too."""
    every = max(1, len(split) // MOST_TEXTS)
    texts = split.texts[::every]
    if split.second_texts is not None:
        texts = [f"{one} {other}" for one, other in zip(texts, split.second_texts[::every], strict=True)]
    distinct = dict.fromkeys(text[:MOST_CHARACTERS] for text in texts[: 2 * MOST_TEXTS])
    words = [list(_words(text)) for text in distinct]
    known = np.cumsum([len(row) for row in words])
    words = words[: int(np.searchsorted(known, MOST_WORDS)) + 1]
    flat = sorted({word for row in words for word in row})
    english = list(_words(ENGLISH))
    if not flat or _broken(english, tokenizer).mean() > KNOWS_ENGLISH:
        return LanguageFit(0, 0.0, 0, 0.0)
    broken = dict(zip(flat, _broken(flat, tokenizer).tolist(), strict=True))
    shares = [float(np.mean([broken[word] for word in row])) for row in words if len(row) >= WORDS_OF_A_TEXT]
    all_words = [broken[word] for row in words for word in row]
    foreign = float(np.mean([share >= FOREIGN for share in shares])) if shares else 0.0
    return LanguageFit(len(shares), foreign, len(all_words), float(np.mean(all_words)))


def _words(text: str) -> Iterator[str]:
    """Words of letters, in small ones; of alphabets only the longer ones."""
    text = SKIPPED.sub(" ", text).lower()
    if not text.isascii():
        text = "".join(letter if letter.isalpha() or unicodedata.category(letter)[0] == "M" else " " for letter in text)
        for word in text.split():
            if _ideographs(word):
                yield from word
            elif len(word) >= SHORTEST or not _alphabetic(word):
                yield word
    else:
        yield from re.findall(f"[a-z]{{{SHORTEST},}}", text)


def _alphabetic(word: str) -> bool:
    return unicodedata.name(word[0], "").startswith(ALPHABETS)


def _broken(words: Sequence[str], tokenizer: Tokenizer) -> np.ndarray:
    """For each word: is it [UNK], or in tiny pieces? Chinese signs are pieces of their own, in every vocabulary."""
    encoded = tokenizer(words)
    pieces = np.maximum(encoded.lengths - 2, 1)  # [CLS] and [SEP] aside
    letters = np.array([sum(unicodedata.category(letter)[0] != "M" for letter in word) for word in words])
    least = np.array([BROKEN if _alphabetic(word) else 0.0 if _ideographs(word) else SPELT for word in words])
    row_of = np.repeat(np.arange(len(words)), encoded.lengths)
    unknown = np.zeros(len(words), dtype=bool)
    unknown[row_of[encoded.ids == tokenizer.ids["[UNK]"]]] = True
    found: np.ndarray = unknown | (letters / pieces < least)
    return found


def _ideographs(word: str) -> bool:
    return unicodedata.name(word[0], "").startswith("CJK")
