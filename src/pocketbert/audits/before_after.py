"""Did training on both sides of each swap help? Two classifiers asked the same pairs, and tested template by template.

Templates are paired: both classifiers read the same sentences. Trainings are not (seed 0 of one has nothing to do with
seed 0 of the other), so each side's trainings are a source of noise of their own.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pocketbert.audits.audit import Answers, Measured, make_suite, number_names, number_words
from pocketbert.audits.intervals import half_width, one_sided_p_value
from pocketbert.audits.measures import MARGIN, change_noise, permutation_p_value
from pocketbert.audits.predictors import as_predictors
from pocketbert.audits.result import BeforeAfter
from pocketbert.audits.wording import p_value
from pocketbert.errors import UserError
from pocketbert.statistics import LEVEL, holm
from pocketbert.statistics.variance import Noise


def before_and_after(before: Any, after: Any, suite: Any = "pronouns", *, small: bool = False) -> list[BeforeAfter]:
    """Every comparison of a suite, of two classifiers with the same labels; each may be a list of trainings."""
    models = as_predictors(before), as_predictors(after)
    if models[0][0].labels != models[1][0].labels or models[0][0].pair != models[1][0].pair:
        raise UserError("before and after differ in their labels, or in the kind of their texts")
    made = make_suite(suite, models[0][0], small=small)
    label = len(models[0][0].labels) - 1
    sides = [Measured(Answers(some, made, None), made, label, MARGIN) for some in models]
    found = []
    for swap in made.comparisons:
        items = made.of(swap)
        if not items:
            continue
        changes = [side.changes(swap, items)[..., label] for side in sides]
        templates, words = number_names([item.template for item in items]), number_words(items)
        noise = paired_noise(changes, templates, words)
        each = changes[1].mean(axis=0) - changes[0].mean(axis=0)
        mean, half = float(each.mean()), half_width(noise)
        p = max(permutation_p_value(each, templates), min(1.0, 2 * one_sided_p_value(abs(mean), noise)))
        flips = [float(side.flips(swap, items).mean()) for side in sides]
        found.append(
            BeforeAfter(
                task="",
                row="",
                after_row="",
                suite=made.name,
                pair=swap.name,
                n=len(items),
                before=float(changes[0].mean()),
                after=float(changes[1].mean()),
                difference=mean,
                low=mean - half,
                high=mean + half,
                p=p,
                p_corrected=p,
                flips_before=flips[0],
                flips_after=flips[1],
                sentence="",
            )
        )
    corrected = holm([one.p for one in found])
    return [replace(one, p_corrected=p, sentence=_sentence(one, p)) for one, p in zip(found, corrected, strict=True)]


def paired_noise(changes: Sequence[np.ndarray], templates: np.ndarray, words: np.ndarray | None) -> Noise:
    """Of the difference: of templates (and words) once, paired; of each side's trainings."""
    each = (changes[1].mean(axis=0) - changes[0].mean(axis=0))[None]
    (shared,) = change_noise(each, templates, words)
    own = [change_noise(side, templates, words)[0][-1] for side in changes if side.shape[0] > 1]
    return ((*shared, *own),)


def _sentence(one: BeforeAfter, corrected: float) -> str:
    told = f"{one.pair}: {100 * one.before:+.1f} points before, {100 * one.after:+.1f} after"
    if corrected >= LEVEL:
        return f"{told}; no significant difference ({p_value(corrected)})."
    smaller = abs(one.after) < abs(one.before)
    return f"{told}: {'smaller' if smaller else 'larger'} ({p_value(corrected)})."
