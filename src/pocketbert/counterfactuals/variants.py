"""One text, or two that belong together, told about somebody else: for audits of own sentences, and for training."""

import re
from collections.abc import Callable, Mapping

from pocketbert.counterfactuals.swaps import (
    FORMS,
    GROUPS,
    NAME_COUNTERPART,
    returns,
    swap_gender,
    swap_name,
    swap_pronouns,
)
from pocketbert.counterfactuals.words import NAMES, NOUNS
from pocketbert.errors import UserError

Texts = tuple[str, ...]  # one text, or two
LONGEST = 2_000  # characters: a long review tells of many people
WORDS = re.compile(r"[a-z]+")
NAME = re.compile(r"[A-Za-z]+")
MALE = {he for he, _ in NOUNS} | set(FORMS["he"]) | {"mr"}
FEMALE = {she for _, she in NOUNS} | set(FORMS["she"]) | {"ms"}
ORIGINS = list(NAMES)


def gender_variants(texts: Texts) -> dict[str, Texts]:
    """The same text, or two, of each group; {} where no swap applies, or none is sure to be good English.

    he, she and they where nothing but pronouns says a gender; else male and female, with all nouns exchanged.
    """
    if any(len(text) > LONGEST for text in texts):
        return {}
    both = [_pronoun_variants(text) for text in texts]
    present = {group for own in both if own is not None for group in own}
    if present and all(own is not None for own in both):
        # A text without any pronoun stays as it is; the other must have them all.
        return {
            group: tuple((own or {}).get(group, text) for own, text in zip(both, texts, strict=True))
            for group in GROUPS
            if all(group in own for own in both if own)
        }
    swapped = tuple(swap_gender(text) or text for text in texts)
    if swapped == texts or tuple(swap_gender(text) or text for text in swapped) != texts:
        return {}
    words = {word for text in texts for word in WORDS.findall(text.lower())}
    men, women = words & MALE, words & FEMALE
    if men and women:  # two people: which of them would the text be about?
        return {}
    return {"male": texts, "female": swapped} if men else {"male": swapped, "female": texts}


def _pronoun_variants(text: str) -> dict[str, str] | None:
    """The text of each group; {} where it has no pronoun; None where it has, and they cannot be exchanged."""
    has = {group for group in ("he", "she") if _has(text, group)}
    if not has:
        return {}
    source = has.pop()
    if has:
        return None
    other = "she" if source == "he" else "he"
    swapped = swap_pronouns(text, other)
    if swapped is None or not returns(text, swapped, source=source, target=other):
        return None
    they = swap_pronouns(text, "they")
    return {source: text, other: swapped, **({} if they is None else {"they": they})}


def _has(text: str, group: str) -> bool:
    return bool(set(WORDS.findall(text.lower())) & set(FORMS[group]))


def name_variants(texts: Texts) -> list[Texts]:
    """With a name of the other gender, its pronouns and nouns, and with a name of another origin; [] without a name."""
    named = list(dict.fromkeys(word for text in texts for word in NAME.findall(text) if word in NAME_COUNTERPART))
    if len(named) != 1 or any(len(text) > LONGEST for text in texts):
        return []
    found = []
    gendered = tuple(swap_gender(text, names=True) or text for text in texts)
    if gendered != texts and tuple(swap_gender(text, names=True) or text for text in gendered) == texts:
        found.append(gendered)
    other = _of_next_origin(named[0])
    renamed = tuple(swap_name(text, named[0], other) or text for text in texts)
    if not any(named[0] in NAME.findall(text) for text in renamed):
        found.append(renamed)
    return found


def _of_next_origin(name: str) -> str:
    """The name at the same place in the list of the origin that comes next, of the same gender."""
    for number, origin in enumerate(ORIGINS):
        for gender, names in NAMES[origin].items():
            if name in names:
                return NAMES[ORIGINS[(number + 1) % len(ORIGINS)]][gender][names.index(name)]
    raise ValueError(f"{name} is in no list")


def _pronouns(texts: Texts) -> list[Texts]:
    return [other for other in dict.fromkeys(gender_variants(texts).values()) if other != texts]


AUGMENTATIONS: Mapping[str, Callable[[Texts], list[Texts]]] = {"pronouns": _pronouns, "names": name_variants}


def parse_augmentations(augment: str) -> tuple[str, ...]:
    """`pronouns,names`, each known."""
    names = tuple(dict.fromkeys(name.strip() for name in augment.split(",") if name.strip()))
    unknown = [name for name in names if name not in AUGMENTATIONS]
    if unknown or not names:
        raise UserError(f"augment: {augment!r} is not known; there are {', '.join(AUGMENTATIONS)}, comma-separated")
    return names
