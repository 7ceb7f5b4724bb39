"""Why a model answered so: which words mattered, what attended to what, and what another pronoun would have changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")

_SIMPLE = {"he": "she", "she": "he", "him": "her", "himself": "herself", "herself": "himself", "hers": "his"}
_HIS = {"determiner": "her", "pronoun": "hers"}
_HER = {"determiner": "his", "pronoun": "him"}
PRONOUN = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b", re.IGNORECASE)
# After "her" or "his": no noun begins with these, so the pronoun stands alone.
_NO_NOUN = frozenset(
    re.findall(
        r"\w+",
        "a an the and or but nor so to of in on at by for from with into about as than that this these those "
        "it i you we they he she him them is was are were be been has had have do does did will would can "
        "could may might should must not very too again when where while if because who which what how there "
        "then now ",
    )
)


@dataclass(frozen=True)
class Span:
    """A word, or several neighbours of a long text: its place in the text."""

    begin: int
    end: int


def word_spans(text: str, most: int) -> list[Span]:
    """The words of a text; of a long one, runs of neighbours, so that there are at most so many."""
    words = [match.span() for match in WORD.finditer(text)]
    step = max(1, -(-len(words) // most))
    return [Span(words[i][0], words[min(i + step, len(words)) - 1][1]) for i in range(0, len(words), step)]


def without(text: str, span: Span) -> str:
    """The text, one word left out."""
    return f"{text[: span.begin].rstrip()} {text[span.end :].lstrip()}".strip()


def occlusions(texts: Sequence[str], most: int) -> list[tuple[int, Span, list[str]]]:
    """Every word of a text, or of both of a pair: (which text, where, the texts without it)."""
    found = []
    for number, text in enumerate(texts):
        for span in word_spans(text, max(1, most // len(texts))):
            changed = list(texts)
            changed[number] = without(text, span)
            found.append((number, span, changed))
    return found


def swap_pronouns(text: str) -> str | None:
    """The text with she for he, her for him or his, and the other way round; None where there is nothing to swap."""
    changed = False

    def swapped(match: re.Match[str]) -> str:
        nonlocal changed
        changed = True
        word = match[0].lower()
        if word in _SIMPLE:
            other = _SIMPLE[word]
        else:
            other = (_HIS if word == "his" else _HER)[_role(text, match.end())]
        return _cased(match[0], other)

    result = PRONOUN.sub(swapped, text)
    return result if changed else None


def _role(text: str, end: int) -> str:
    """Does a noun follow ("her coat"), or does the pronoun stand alone ("saw her.")?"""
    following = re.match(r"\s+(\w+)", text[end:])
    return "pronoun" if following is None or following[1].lower() in _NO_NOUN else "determiner"


def _cased(like: str, word: str) -> str:
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word.capitalize() if like[0].isupper() else word
