"""The benchmark's numbers as tables: plain text for a terminal, Markdown for docs/performance.md."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pocketbert.training.machine import has_bfloat16
from pocketbert.training.settings import usable_cores

START, END = "<!-- bench:start -->", "<!-- bench:end -->"
Table = tuple[str, list[str], list[list[str]]]  # title, column names, rows


def machine_facts(threads: int) -> dict[str, Any]:
    """What the numbers depend on; nothing that tells whose machine it was."""
    facts: dict[str, Any] = {"processor": processor(), "cores": usable_cores(), "threads": threads}
    facts |= {"bfloat16": has_bfloat16(), "system": platform.system(), "python": platform.python_version()}
    for package in ("torch", "transformers", "pocketbert"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def processor() -> str:
    """The model name of the CPU, where the system says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def tables(results: dict[str, Any]) -> list[Table]:
    """Everything there is to show."""
    found = [_comparisons(results["comparisons"], judge=not results["quick"])]
    found += [_ideas(shape, rows) for shape, rows in results["ideas"].items()]
    found += [_peak(results["peak"])]
    names = list(results["breakdown"]["tiny"])
    rows = [[name, *(f"{split.get(name, 0):.0f} %" for split in results["breakdown"].values())] for name in names]
    found.append(("Where a training step's time goes (torch's profiler)", ["part", *results["breakdown"]], rows))
    return found


def _comparisons(lines: list[dict[str, Any]], *, judge: bool) -> Table:
    rows = []
    for line in lines:
        digits = ".1f" if line["unit"] == "s" else ",.0f"
        least, most = line["ratio_range"]
        goal = line["goal"]
        verdict = "–" if goal is None else f"≥ {goal:g}×"
        if judge and goal is not None:
            verdict += " met" if line["ratio"] >= goal else " missed"
        numbers = [f"{line[side]:{digits}} {line['unit']}" for side in ("theirs", "ours")]
        ratio = f"{line['ratio']:.1f}× ({least:.1f}–{most:.1f})"
        rows.append([line["what"], *numbers, ratio, verdict, line["note"]])
    columns = ["what", "transformers", "pocketbert", "ratio (least–most of the rounds)", "goal", "note"]
    return "pocketbert beside transformers", columns, rows


def _ideas(shape: str, lines: list[dict[str, Any]]) -> Table:
    rows = [
        [line["idea"], f"{line['examples_per_second']:,.0f}", f"{line['times']:.2f}×", f"{line['in_all']:.1f}×"]
        for line in lines
    ]
    return f"What each idea buys, fine-tuning {shape}", ["idea", "examples/s", "on the row above", "in all"], rows


def _peak(peak: dict[str, Any]) -> Table:
    reached = ", ".join(f"{name} {value:,.0f} GFLOP/s" for name, value in peak["peak_gflops"].items())
    rows = [
        [
            row["shape"],
            row["who"],
            row["precision"],
            f"{row['mflop_per_example']:.1f}",
            f"{row['gflops']:.1f}",
            f"{row['share']:.0%}",
        ]
        for row in peak["rows"]
    ]
    columns = ["shape", "who", "precision", "useful MFLOP an example", "useful GFLOP/s", "share of the peak"]
    return f"Share of the measured matrix-product peak ({reached})", columns, rows


def as_text(results: dict[str, Any]) -> str:
    """For a terminal: columns that line up."""
    parts = [facts_line(results)]
    if results["quick"]:
        parts.append("QUICK: a few steps of everything. It works, or it does not; the numbers mean nothing.")
    for title, columns, rows in tables(results):
        parts.append(title + "\n" + "\n".join("  " + line for line in align([columns, *rows])))
    return "\n\n".join(parts)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines; every column as wide as its widest cell, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def facts_line(results: dict[str, Any]) -> str:
    facts = results["machine"]
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['threads']} threads a side, "
        f"bfloat16 {'in hardware' if facts['bfloat16'] else 'not in hardware'}; Python {facts['python']}, "
        f"torch {facts['torch']}, transformers {facts['transformers']}, pocketbert {facts['pocketbert']}; "
        f"measured in {results['seconds']:.0f} s; SST-2 train, "
        f"{results['peak']['mean_tokens']:.0f} tokens a sentence on average"
    )


def as_markdown(results: dict[str, Any]) -> str:
    parts = [f"Machine: {facts_line(results)}."]
    for title, columns, rows in tables(results):
        lines = [columns, ["---"] * len(columns), *rows]
        parts.append(f"### {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in lines))
    return "\n\n".join(parts)


def write_section(page: Path, results: dict[str, Any]) -> None:
    """Replace what is between the two marks of a page; the rest of it is left alone."""
    text = page.read_text(encoding="utf-8")
    if text.count(START) != 1 or text.count(END) != 1 or text.index(START) > text.index(END):
        raise SystemExit(f"{page}: expected one {START} and, after it, one {END}")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    page.write_text(f"{before}{START}\n{as_markdown(results)}\n{END}{after}", encoding="utf-8")
