"""The same sentence about somebody else: pronouns, names and gendered nouns exchanged, in good English.

No model and no data set is needed here; audits are made of it, and training on both sides of a swap (`augment`).
"""

from pocketbert.counterfactuals.swaps import GROUPS, swap_gender, swap_pronouns

__all__ = ["GROUPS", "swap_gender", "swap_pronouns"]
