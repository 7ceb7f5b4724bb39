"""Training on both sides of each swap: every text to which one applies is also learnt about somebody else.

What a label has to do with he or she in the training texts is then the same for both, and nothing is left of it to
learn. Texts without a swap stay as they are, once.
"""

import numpy as np

from pocketbert.counterfactuals.variants import AUGMENTATIONS, Texts, parse_augmentations
from pocketbert.errors import UserError
from pocketbert.tasks.task import Split


def augmented(split: Split, augment: str | None) -> Split:
    """The split, and after it the other sides of all swaps, with the labels of the texts they were made of."""
    if augment is None:
        return split
    rows: list[int] = []
    others: list[Texts] = []
    names = parse_augmentations(augment)
    for row, text in enumerate(split.texts):
        texts: Texts = (text,) if split.second_texts is None else (text, split.second_texts[row])
        made = [other for name in names for other in AUGMENTATIONS[name](texts)]
        for other in dict.fromkeys(made):
            rows.append(row)
            others.append(other)
    if not rows:
        raise UserError(
            f"augment {augment}: no swap applies in any of the {len(split):,} training texts, so nothing would change; "
            "leave it out"
        )
    return Split(
        texts=[*split.texts, *(other[0] for other in others)],
        second_texts=None if split.second_texts is None else [*split.second_texts, *(other[1] for other in others)],
        labels=None if split.labels is None else np.concatenate([split.labels, split.labels[rows]]),
        reason=split.reason,
    )
