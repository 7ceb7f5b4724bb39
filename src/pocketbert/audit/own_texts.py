"""A suite of the user's own sentences: where a pronoun can be exchanged, and the right label stays what it is."""

import re
from collections.abc import Sequence

from pocketbert.audit.suite_files import made_suite
from pocketbert.audit.suites import Item, Suite, Texts
from pocketbert.counterfactuals.swaps import FORMS, GROUPS, returns, swap_gender, swap_pronouns
from pocketbert.counterfactuals.words import NOUNS
from pocketbert.errors import UserError
from pocketbert.tasks import Split

MOST = 2_000  # sentences; more make nothing clearer
LONGEST = 2_000  # characters: a long review tells of many people
WORDS = re.compile(r"[a-z]+")
MALE = {he for he, _ in NOUNS} | set(FORMS["he"]) | {"mr"}
FEMALE = {she for _, she in NOUNS} | set(FORMS["she"]) | {"ms"}


def own_texts(split: Split, labels: Sequence[str], *, most: int = MOST) -> Suite:
    """Every sentence of a split in which a swap applies; each is a template of its own.

    he, she and they where the sentence has one person's pronouns and nothing else says their gender; male and female
    where it has gendered nouns as well, and all of them are exchanged.
    """
    items: list[Item] = []
    for row, text in enumerate(split.texts):
        texts: Texts = (text,) if split.second_texts is None else (text, split.second_texts[row])
        variants = _variants(texts)
        if variants:
            expected = None if split.labels is None else labels[split.labels[row]]
            number = row + 1 if split.numbers is None else int(split.numbers[row])
            items.append(Item(f"row {number}", f"row {number}", variants, expected))
        if len(items) == most:
            break
    if not items:
        raise UserError(
            f"no swap applies in any of the {len(split):,} texts: none has he or she in a sentence that could be told "
            "of another. That is no pass: nothing was asked; use a suite of templates (--suite pronouns)"
        )
    groups = [*GROUPS, "male", "female"]
    note = f"{len(items):,} of {len(split):,} texts have a pronoun or noun that can be exchanged"
    return made_suite("own", items, groups, pair=split.second_texts is not None, notes=(note,))


def _variants(texts: Texts) -> dict[str, Texts]:
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
