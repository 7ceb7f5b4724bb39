"""`pocketbert audit`: does a classifier change its mind when only a pronoun or a name changes?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Text, Text2, Threads
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.errors import UserError

if TYPE_CHECKING:
    from pocketbert.audits.masked import MaskedResult
    from pocketbert.audits.result import AuditResult, ChangeResult

MARGIN = 2.0  # points
MOST_VALUES = 12  # of a breakdown


@app.command()
def audit(
    target: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|STUDY|MODEL…", help="A run, several trainings of one, a study, or a model with an MLM head."
        ),
    ],
    suite: Annotated[
        str, typer.Option(help="pronouns, names, nouns, own, winogender, winobias, or a CSV; comma-separated.")
    ] = "pronouns",
    compare: Annotated[str | None, typer.Option(help="Pairs of groups, comma-separated: she-he,they-he.")] = None,
    target_label: Annotated[
        str | None, typer.Option("--of", metavar="LABEL", help="Whose probability. Default: the last label.")
    ] = None,
    margin: Annotated[float, typer.Option(help="Points; smaller mean changes count as none.")] = MARGIN,
    texts: Annotated[Path | None, typer.Option(help="For suite own: a file of texts. Default: the run's test.")] = None,
    text: Text = None,
    text2: Text2 = None,
    small: Annotated[
        bool, typer.Option("--small", help="A few items per template: seconds with large models.")
    ] = False,
    pairs: Annotated[Path | None, typer.Option(help="Also write the suite's sentences to this CSV.")] = None,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Swap he, she and they, or names, and see what changes: effects, intervals, controls, and the worst pairs.

    RUN is a run's folder, or that of a study, whose recommended row's trainings are then audited together. Of a
    pretrained model, the masked pronoun's probabilities by occupation are shown.
    """
    from pocketbert.audits import audit as run_audit
    from pocketbert.audits.audit import OWN, make_suite
    from pocketbert.audits.masked import audit_masked
    from pocketbert.audits.predictors import as_predictors, own_split
    from pocketbert.audits.suite_files import write_suite
    from pocketbert.runs import is_run
    from pocketbert.study.final import audited_runs
    from pocketbert.training.machine import computing

    if len(target) == 1 and not is_run(target[0]) and not (target[0] / "study.json").is_file():
        _show_masked(audit_masked(target[0] if target[0].is_dir() else str(target[0])), as_json)
        return
    runs = [run for one in target for run in audited_runs(one)]
    with computing(threads):
        models = as_predictors(runs)
        names = [name.strip() for name in suite.split(",") if name.strip()]
        if not names:
            raise UserError(f"--suite {suite!r}: names none; name one, or several, comma-separated")
        if texts is not None and OWN not in names:
            raise UserError(f"--texts {texts} is for suite own; say --suite own")
        found = []
        for name in names:
            given = None
            if name == OWN and texts is not None:
                given = own_split(texts, models[0], text=text, text2=text2, encoding=encoding)
            made = make_suite(name, models[0], texts=given, small=small)
            if pairs is not None:
                write_suite(made, pairs)
                say(f"sentences: {pairs}")
            say(f"{made.name}: {len(made.items):,} items, {len(runs)} trainings …")
            wanted = None if compare is None else [pair.strip() for pair in compare.split(",") if pair.strip()]
            found.append(run_audit(models, made, compare=wanted, label=target_label, margin=margin / 100))
    if as_json:
        print_json(_document(found))
        return
    for one in found:
        show(one)


def _document(found: "list[AuditResult]") -> dict[str, Any]:
    """Of one suite, its result; of several, all comparisons together, and the results."""
    if len(found) == 1:
        return found[0].to_dict()
    together = [{"suite": one.suite, **line} for one in found for line in one.to_dict()["comparisons"]]
    return {"comparisons": together, "audits": [one.to_dict() for one in found]}


COLUMNS = [
    "comparison",
    "pairs",
    "templates",
    "mean change",
    "95 % interval",
    "absolute",
    "decisions changed %",
    "p",
    "",
]


def show(result: "AuditResult") -> None:
    """The tables, the sentences, the worst pairs."""
    trainings = f"{result.trainings} training{'s' * (result.trainings > 1)}"
    print_table(
        COLUMNS,
        [_line(one) for one in (*result.comparisons, *result.controls)],
        title=f"{result.suite}: points of the probability of {result.label}, {trainings}; controls below",
    )
    groups = {group: share for one in result.comparisons for group, share in one.accuracy.items()}
    if groups:
        print_table(["group", "accuracy %"], [[name, f"{100 * share:.1f}"] for name, share in groups.items()])
    for pair, tag in dict.fromkeys((line.pair, line.tag) for line in result.breakdowns):
        lines = [line for line in result.breakdowns if (line.pair, line.tag) == (pair, tag)]
        shown = sorted(lines, key=lambda line: -abs(line.mean_change))[:MOST_VALUES]
        rows = [
            [line.value, line.n, f"{100 * line.mean_change:+.1f}", _interval(line), "flagged" if line.flagged else ""]
            for line in shown
        ]
        print_table([tag, "pairs", "mean change", "95 % interval", ""], rows, title=f"{pair} by {tag}")
    rows = [
        [
            one.pair,
            f"{100 * one.change:+.1f}",
            one.flips,
            f"{' | '.join(one.first_text)}\n{' | '.join(one.second_text)}",
        ]
        for one in result.worst
    ]
    print_table(["comparison", "change", "decisions changed", "texts"], rows, title="The worst pairs")
    for sentence in result.sentences:
        print(f"  {sentence}")
    for note in result.notes:
        say(note)


def _line(one: "ChangeResult") -> list[Any]:
    verdict = ["flagged"] * one.flagged + ["equivalent"] * one.equivalent
    change, absolute = f"{100 * one.mean_change:+.2f}", f"{100 * one.absolute_change:.2f}"
    rate, p = f"{100 * one.flip_rate:.1f}", "< 0.001" if one.p_corrected < 0.001 else f"{one.p_corrected:.3f}"
    return [one.pair, one.n, one.templates, change, _interval(one), absolute, rate, p, ", ".join(verdict)]


def _interval(one: Any) -> str:
    return f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"


def _show_masked(result: "MaskedResult", as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    rows = [
        [
            one.occupation,
            *(f"{100 * value:.0f}" for value in (one.he, one.she, one.they)),
            f"{100 * one.she_share:.0f} ({100 * one.least:.0f} to {100 * one.most:.0f})",
            "" if one.women is None else f"{one.women:.0f}",
        ]
        for one in result.preferences
    ]
    columns = ["occupation", "he %", "she %", "they %", "she of he and she % (range)", "women %"]
    print_table(columns, rows, title=f"{result.model}: the pronoun it expects, means of {result.sentences} sentences")
    if result.correlation is not None:
        say(
            f"rank correlation with the share of women in {result.occupations} occupations: {result.correlation:.2f} "
            f"(p = {result.p:.2g})"
        )
