"""What a study found on a task, in sentences: which row is best, what it surely beats, and which to use."""

from collections.abc import Sequence

from pocketbert.report.document import ComparisonResult, RowResults, Score
from pocketbert.report.wording import interval, listing, percent
from pocketbert.statistics import Recommendation
from pocketbert.study.wording import effect_in_words, missed_in_words, points

NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "mcc": "Matthews correlation"}


def verdict(rows: Sequence[RowResults], comparisons: Sequence[ComparisonResult], metric: str) -> list[str]:
    """Of one task's rows, at least one."""
    best = _best(rows, metric)
    chosen = ""
    if best.split == "dev":
        chosen = ", on dev: there are no test labels to score"
        chosen += "" if best.baseline else ", and dev also chose its epoch"
    sentences = [f"{best.name} has the highest {NAMES[metric]}: {scored(best.score(metric), metric)}{chosen}."]
    learnt = [row for row in rows if not row.all_undertrained]
    contenders = [row for row in learnt if not row.guesses]
    sentences += _against(best, contenders, comparisons, "It")
    plain = [row for row in contenders if row.baseline]
    if plain and best not in plain:
        baseline = _best(plain, metric)
        sentences += _against(
            baseline, [row for row in contenders if row is not best], comparisons, f"The baseline {baseline.name}"
        )
    sentences += [sentence for row in rows for sentence in _trouble(row)]
    unsure = any(not one.significant and one.first in {row.name for row in contenders} for one in comparisons)
    if unsure and best.split == "all":
        sentences.append("More rows, or more trainings (--repeats), would show smaller differences.")
    elif unsure and any(1 < len(row.seeds) < 5 for row in rows):
        sentences.append("More test rows would show smaller differences; so would five seeds or more.")
    if not all(row.accuracy.counts_training_noise for row in rows):
        sentences.append("Some rows have one seed: their intervals say nothing about other seeds.")
    return sentences


def recommendation(row: RowResults, choice: Recommendation, promised: Score, metric: str) -> str:
    """Which row to use, why, what to expect of it and what it costs, in words that need no statistics."""
    if choice.cheaper:
        why = f"it is shown to be less than {points(choice.margin)} worse than {choice.best}, and it is cheaper to use"
    else:
        why = "it has the highest score, and nothing cheaper is shown to be as good"
    costs = []
    if row.cost.seconds_per_1000_texts is not None:
        costs.append(f"1,000 texts take {row.cost.seconds_per_1000_texts:.2g} s on one core")
    if row.cost.model_bytes:
        costs.append(f"{row.cost.model_bytes / 1e6:,.0f} MB of memory")
    cost = f" It costs: {', '.join(costs)}." if costs else ""
    return (
        f"Recommended: {choice.row}; {why}. On new texts of this kind expect {NAMES[metric]} of about "
        f"{scored(promised, metric)}.{cost}"
    )


def scored(score: Score, metric: str) -> str:
    """`81.2 % (79.9 to 82.4)`; a correlation is no share."""
    if metric == "mcc":
        return f"{score.mean:.2f} ({score.low:.2f} to {score.high:.2f})"
    return f"{percent(score.mean)} % ({interval(score.low, score.high)})"


def _trouble(row: RowResults) -> list[str]:
    """Trainings that learnt nothing are named: a row is no better than how it was trained."""
    sentences = []
    runs = len(row.seeds)
    if row.all_undertrained:
        sentences.append(
            f"{row.name} is undertrained (it predicts one class only, or its loss did not fall): its score says "
            "nothing about the method; train longer (--epochs) or with another --learning-rate."
        )
    elif row.undertrained:
        sentences.append(f"{row.undertrained} of {runs} trainings of {row.name} are undertrained.")
    if row.collapsed:
        sentences.append(
            f"{row.collapsed} of {runs} trainings of {row.name} collapsed to the most frequent class while others did "
            "not; they count in its mean, and its interval is not to be trusted."
        )
    return sentences


def _best(rows: Sequence[RowResults], metric: str) -> RowResults:
    return max(rows, key=lambda row: row.score(metric).mean)


def _against(
    row: RowResults, others: Sequence[RowResults], comparisons: Sequence[ComparisonResult], subject: str
) -> list[str]:
    """One row against others, in at most three sentences: it beats, is beaten by, does not clearly differ from."""
    names = {other.name for other in others} - {row.name}
    wins, losses, ties, single = [], [], [], []
    for one in comparisons:
        if row.name not in (one.first, one.second):
            continue
        other = one.second if one.first == row.name else one.first
        if other not in names:
            continue
        by = f"{other} by {effect_in_words(one.effect, one.low, one.high)}"
        if not one.significant:
            ties.append((other, one.detectable))
            single += [other] if one.p_value < 0.05 else []
        elif one.first == row.name:
            wins.append(by)
        else:
            losses.append(by)
    sentences = [f"{subject} beats {listing(wins)}."] if wins else []
    sentences += [f"{subject} is beaten by {listing(losses)}."] if losses else []
    if ties:
        missed = missed_in_words([detectable for _, detectable in ties])
        alone = ""
        if single:
            alone = f"; against {listing(single)} alone it would be significant, among so many comparisons it is not"
        names_of_ties = listing([name for name, _ in ties])
        sentences.append(f"{subject} has no significant difference from {names_of_ties}: {missed}{alone}.")
    return sentences
