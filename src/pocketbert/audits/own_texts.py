"""A suite of the user's own sentences: where a pronoun can be exchanged, and the right label stays what it is."""

from collections.abc import Sequence

from pocketbert.audits.suite_files import made_suite
from pocketbert.audits.suites import Item, Suite, Texts
from pocketbert.counterfactuals.swaps import GROUPS
from pocketbert.counterfactuals.variants import gender_variants
from pocketbert.errors import UserError
from pocketbert.tasks import Split

MOST = 2_000  # sentences; more make nothing clearer


def own_texts(split: Split, labels: Sequence[str], *, most: int = MOST) -> Suite:
    """Every sentence of a split in which a swap applies; each is a template of its own.

    he, she and they where the sentence has one person's pronouns and nothing else says their gender; male and female
    where it has gendered nouns as well, and all of them are exchanged.
    """
    items: list[Item] = []
    for row, text in enumerate(split.texts):
        texts: Texts = (text,) if split.second_texts is None else (text, split.second_texts[row])
        variants = gender_variants(texts)
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
