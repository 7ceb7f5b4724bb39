"""The audits of finished studies as tables: the eight probe sentences of two reports, our suites, outside suites.

    pocketbert study sst2 --models pocket-tiny,pocket-mini --methods frozen,finetune --seeds 3 --out studies/sst2
    pocketbert study rte --models pocket-tiny,pocket-mini --methods frozen,finetune --seeds 3 --out studies/rte
    python -m benchmarks.audit_tables studies/sst2 studies/rte --write docs/results.md

Every further study, such as one of minilm-l6, adds its rows. Needs utah_mp4, winogender and winobias (POCKETBERT_DATA).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pocketbert as pb
from pocketbert.audits.predictors import Predictor, as_predictors
from pocketbert.audits.result import AuditResult, ChangeResult
from pocketbert.report import read_document
from pocketbert.tasks import read_rows
from pocketbert.tasks.registry import data_folders

START, END = "<!-- audits:start -->", "<!-- audits:end -->"
PROBES = {False: "test_sst2.csv", True: "test_rte.csv"}
SUITES = {False: ("pronouns", "names", "nouns", "winogender", "winobias"), True: ("pronouns", "names", "nouns")}


def rows(folders: list[Path]) -> Iterator[tuple[str, str, list[Predictor]]]:
    """Task, name and trainings of every row that reads texts."""
    seen = set()
    for folder in folders:
        for row in read_document(folder / "study.json").rows:
            if not row.guesses and (row.task, row.name) not in seen:
                seen.add((row.task, row.name))
                yield row.task, row.name, as_predictors([pb.load_run(folder / "runs" / run) for run in row.folders])


def probe_table(found: list[tuple[str, str, list[Predictor]]], pair: bool) -> list[str]:
    folder = next(one for one in data_folders() if (one / "utah_mp4").is_dir()) / "utah_mp4" / "test"
    texts = [tuple(str(value) for value in row.values()) for row in read_rows(folder / PROBES[pair])]
    asked = [(name, models) for _, name, models in found if models[0].pair == pair]
    lines = ["| sentence | " + " | ".join(name for name, _ in asked) + " |", "|---" * (1 + len(asked)) + "|"]
    cells = []
    for _, models in asked:
        values = np.stack([model.predict(texts) for model in models])
        labels, means = models[0].labels, values.mean(axis=0)
        votes = values.argmax(axis=2)
        cells.append(
            [
                f"{labels[int(mean.argmax())]} {100 * mean.max():.0f} % "
                f"({int((votes[:, row] == mean.argmax()).sum())}/{len(models)})"
                for row, mean in enumerate(means)
            ]
        )
    for row, text in enumerate(texts):
        lines.append(f"| {' / '.join(text)} | " + " | ".join(column[row] for column in cells) + " |")
    return lines


def cell(one: ChangeResult) -> str:
    marks = "*" * one.flagged + " ≈" * one.equivalent
    return f"{100 * one.mean_change:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f}){marks}"


def audit_table(found: list[tuple[str, str, list[Predictor]]], pair: bool, suite: str) -> list[str]:
    lines: list[str] = []
    for _, name, models in found:
        if models[0].pair != pair:
            continue
        result: AuditResult = pb.audit(models, suite)
        if not lines:
            columns = [one.pair for one in result.comparisons]
            extra = ["largest swap, absolute", *(f"control: {one.pair}, absolute" for one in result.controls)]
            heads = ["row", *columns, "decisions changed %", *extra]
            lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        flips = " / ".join(f"{100 * one.flip_rate:.1f}" for one in result.comparisons)
        largest = max(one.absolute_change for one in result.comparisons)
        numbers = [f"{100 * value:.1f}" for value in (largest, *(one.absolute_change for one in result.controls))]
        lines.append("| " + " | ".join([name, *map(cell, result.comparisons), flips, *numbers]) + " |")
        print(lines[-1], flush=True)
    return lines


def page(folders: list[Path]) -> str:
    found = list(rows(folders))
    parts: list[str] = []
    for pair in (False, True):
        if any(models[0].pair == pair for _, _, models in found):
            kind = "two sentences (RTE)" if pair else "one sentence (SST-2)"
            parts += [f"### The reports' probes, {kind}", "", *probe_table(found, pair), ""]
            for suite in SUITES[pair]:
                parts += [f"### {suite}, {kind}", "", *audit_table(found, pair, suite), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    text = page(arguments.studies)
    if arguments.write:
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(START)
        arguments.write.write_text(f"{before}{START}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
