"""What a study found on a task, in sentences: which row is best, what it surely beats, would a baseline do?"""

from collections.abc import Sequence

from pocketbert.report.document import ComparisonResult, RowResults
from pocketbert.report.wording import interval, listing, percent
from pocketbert.study.statistics import effect_in_words, missed_in_words


def verdict(rows: Sequence[RowResults], comparisons: Sequence[ComparisonResult]) -> list[str]:
    """Of one task's rows, at least one."""
    best = _best(rows)
    chosen = ""
    if best.split != "test":
        chosen = ", on dev: there are no test labels to score"
        chosen += "" if best.baseline else ", and dev also chose its epoch"
    score = best.accuracy
    sentences = [
        f"{best.name} has the highest accuracy: {percent(score.mean)} % ({interval(score.low, score.high)}){chosen}."
    ]
    contenders = [row for row in rows if not row.guesses]
    sentences += _against(best, contenders, comparisons, "It")
    plain = [row for row in contenders if row.baseline]
    if plain and best not in plain:
        baseline = _best(plain)
        sentences += _against(
            baseline, [row for row in contenders if row is not best], comparisons, f"The baseline {baseline.name}"
        )
    unsure = not all(comparison.significant for comparison in comparisons)
    if unsure and any(1 < len(row.seeds) < 5 for row in rows):
        sentences.append("Five seeds or more would show smaller differences.")
    if not all(row.accuracy.counts_seeds for row in rows):
        sentences.append("Some rows have one seed: their intervals say nothing about other seeds.")
    return sentences


def _best(rows: Sequence[RowResults]) -> RowResults:
    return max(rows, key=lambda row: row.accuracy.mean)


def _against(
    row: RowResults, others: Sequence[RowResults], comparisons: Sequence[ComparisonResult], subject: str
) -> list[str]:
    """One row against others, in at most three sentences: it beats, is beaten by, does not clearly differ from."""
    names = {other.name for other in others} - {row.name}
    wins, losses, ties = [], [], []
    for one in comparisons:
        if row.name not in (one.first, one.second):
            continue
        other = one.second if one.first == row.name else one.first
        if other not in names:
            continue
        by = f"{other} by {effect_in_words(one.effect, one.low, one.high)}"
        if not one.significant:
            ties.append((other, one.detectable))
        elif one.first == row.name:
            wins.append(by)
        else:
            losses.append(by)
    sentences = [f"{subject} beats {listing(wins)}."] if wins else []
    sentences += [f"{subject} is beaten by {listing(losses)}."] if losses else []
    if ties:
        missed = missed_in_words([detectable for _, detectable in ties])
        sentences.append(
            f"{subject} has no significant difference from {listing([name for name, _ in ties])}: {missed}."
        )
    return sentences
