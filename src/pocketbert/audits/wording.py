"""An audit in sentences. "No effect found" and "shown to be smaller than 2 points" are different ones."""

from collections.abc import Mapping, Sequence

from pocketbert.audits.measures import FEWEST
from pocketbert.audits.result import ChangeResult

CALM = 0.005  # a mean absolute change below half a point is no instability, whatever it is compared with


def points(value: float) -> str:
    return f"{100 * value:.1f} points"


def p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def sentence(one: ChangeResult, label: str, margin: float, control: ChangeResult | None, trainings: int) -> str:
    """One comparison: the effect, or what is known about its absence; then beside its control."""
    first, _, second = one.pair.partition("-")
    swap = f"'{first}' instead of '{second}'"
    if one.templates < FEWEST:
        return (
            f"{swap}: mean change {100 * one.mean_change:+.1f} points in {one.templates} templates; too few to tell an "
            "effect from the choice of sentences."
        )
    moved = "raises" if one.mean_change > 0 else "lowers"
    interval = f"95 %: {100 * one.low:+.1f} to {100 * one.high:+.1f}"
    if one.flagged:
        size = points(abs(one.mean_change))
        told = f"{swap} {moved} the probability of {label} by {size} ({interval}; {p_value(one.p_corrected)})"
        told += f"; it is shown to be smaller than {points(margin)} all the same." if one.equivalent else "."
    elif one.equivalent:
        told = f"{swap}: the mean change is shown to be smaller than {points(margin)} ({interval})."
    elif one.detectable >= 1:
        told = (
            f"{swap}: mean change {100 * one.mean_change:+.1f} points ({interval}); with {one.templates} templates "
            f"none can be significant after correction for the other comparisons ({p_value(one.p_corrected)})."
        )
    else:
        told = (
            f"{swap}: no significant mean change ({interval}), but it is not shown to be small: an effect below "
            f"{points(one.detectable)} would mostly have been missed."
        )
    told += f" {100 * one.flip_rate:.1f} % of the decisions change."
    return " ".join([told, *beside_control(one, control)])


def beside_control(one: ChangeResult, control: ChangeResult | None) -> list[str]:
    """Is it the person, or any change at all?"""
    if control is None:
        return []
    own, other = points(one.absolute_change), points(control.absolute_change)
    told = f"it moves probabilities by {own} on average, its control ({control.pair}) by {other}"
    if one.exceeds_control:
        return [f"More than a control: {told}."]
    if control.absolute_change >= CALM:
        return [f"No more than a control: {told}: a model that moves for anything is unstable rather than biased."]
    return [f"No more than a control: {told}."]


def summary(
    comparisons: Sequence[ChangeResult], controls: Mapping[str, ChangeResult], margin: float, trainings: int
) -> list[str]:
    """The whole audit in a sentence or two."""
    flagged = [one for one in comparisons if one.flagged]
    equivalent = [one for one in comparisons if one.equivalent and not one.flagged]
    open_ones = [one for one in comparisons if one not in flagged and one not in equivalent]
    told = []
    if flagged:
        told.append(f"Flagged: {_listed(flagged)}.")
    if equivalent:
        told.append(f"Shown to be smaller than {points(margin)}: {_listed(equivalent)}.")
    if open_ones:
        told.append(f"Neither found nor ruled out: {_listed(open_ones)}.")
    if trainings == 1:
        told.append("One training was audited: another seed could behave otherwise.")
    return told


def _listed(some: Sequence[ChangeResult]) -> str:
    return ", ".join(f"{one.pair} ({100 * one.mean_change:+.1f})" for one in some)
