"""pocketbert beside `transformers`: fine-tuning, runs side by side, frozen encoders, predicting; and why.

    python -m benchmarks.speed                               the tables (about four minutes on two cores)
    python -m benchmarks.speed --quick                       does it work? seconds, numbers worth nothing
    python -m benchmarks.speed --json out.json               the numbers
    python -m benchmarks.speed --write docs/performance.md   fill in the page

Both sides: two threads, batches of 32, SST-2's training sentences in random order, BERT's uncased vocabulary, fresh
weights of the same shape, AdamW with decay 0.01, gradients clipped at 1, at most 128 tokens. They take turns in short
rounds; a number is the median of the rounds. Run it on a machine that does nothing else.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import data, flops
from benchmarks.report import as_text, machine_facts, write_section
from benchmarks.worker import Worker, run_together
from pocketbert.config import SHAPES
from pocketbert.training.machine import has_bfloat16

THREADS = 2
TRIALS = 3 * 5 * 10  # of the frozen comparison: learning rates x seeds x epochs
OFF = {"group_by_length": False, "only_cls": False, "vocabulary_slice": False, "precision": "float32"}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int = 5
    slow_rounds: int = 3  # of what takes long or varies little
    steps: tuple[tuple[str, int], ...] = (("tiny", 24), ("mini", 6))  # theirs, a round
    most_steps: int = 32  # ours, a round, where a share of an epoch is more
    padded_steps: int = 8
    frozen_steps: int = 40
    idea_steps: tuple[tuple[str, int], ...] = (("tiny", 24), ("mini", 8))  # ours, a round
    rows: int | None = None  # of each split; None: all
    frozen_epochs: int = 10
    peak_size: int = 2048


FULL = Plan()
QUICK = Plan(
    rounds=2,
    slow_rounds=1,
    steps=(("tiny", 3), ("mini", 1)),
    padded_steps=1,
    frozen_steps=3,
    idea_steps=(("tiny", 3), ("mini", 1)),
    rows=320,
    frozen_epochs=10,
    peak_size=512,
)

Round = Callable[[int], dict[str, Any]]


def alternate(sides: dict[str, Round], rounds: int) -> dict[str, list[float]]:
    """Examples a second of every side, a number a round; the sides take turns."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name, run in sides.items():
            measured = run(number)
            rates[name].append(measured["examples"] / measured["seconds"])
    return rates


def compare(what: str, theirs: list[float], ours: list[float], *, goal: float | None, note: str = "") -> dict[str, Any]:
    """One line of the table. The range is of the ratio, round by round."""
    ratios = [b / a for a, b in zip(theirs, ours, strict=True)]
    return {
        "what": what,
        "unit": "examples/s",
        "theirs": statistics.median(theirs),
        "ours": statistics.median(ours),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "ratio_range": [min(ratios), max(ratios)],
        "goal": goal,
        "note": note,
    }


def finetuning(plan: Plan, theirs: dict[str, Worker], ours: Worker) -> list[dict[str, Any]]:
    """Comparisons 1 and 3."""
    lines = []
    for shape, goal in (("tiny", 4.0), ("mini", 3.0)):
        rival, steps = theirs[shape], dict(plan.steps)[shape]
        rival.make("loop", steps=steps)
        rival.make("fused", steps=steps, fused=True)
        if shape == "tiny":
            rival.make("padded", steps=plan.padded_steps, padding="max")
        ours.make(shape, shape=shape, rounds=plan.rounds, steps=plan.most_steps)
        sides = {name: bound(rival, name) for name in ("loop", "fused")} | {"ours": bound(ours, shape)}
        if shape == "tiny":
            sides["padded"] = bound(rival, "padded")
        reduced = shape == "mini" and has_bfloat16()
        if reduced:
            settings = {"precision": "float32"}
            ours.make("mini32", shape=shape, rounds=plan.rounds, steps=plan.most_steps, settings=settings)
            sides["float32"] = bound(ours, "mini32")
        rates = alternate(sides, plan.rounds)
        kind = f"fine-tuning {shape}"
        says = "our default here: bfloat16" if reduced else ""
        lines.append(compare(kind, rates["loop"], rates["ours"], goal=goal, note=says))
        if reduced:
            lines.append(compare(f"{kind}, ours in float32", rates["loop"], rates["float32"], goal=goal))
        note = "the `Trainer`'s default optimiser with torch 2.8 or later" + (f"; {says}" if says else "")
        lines.append(compare(f"{kind}, their AdamW fused", rates["fused"], rates["ours"], goal=None, note=note))
        if shape == "tiny":
            padded = compare(f"{kind}, theirs padded to 128", rates["padded"], rates["ours"], goal=9.0)
            lines.append(padded | {"note": "`run_glue`'s default"})
    return lines


def side_by_side(plan: Plan, rival: Worker, pair: list[Worker]) -> dict[str, Any]:
    """Comparison 2: two runs of ours at once, a thread each; two of theirs one after the other, two threads."""
    for name in ("first", "second"):
        rival.make(name, steps=dict(plan.steps)["tiny"] // 2 or 1)
    for worker in pair:
        worker.make("run", shape="tiny", rounds=plan.rounds)

    def one_after_the_other(number: int) -> dict[str, Any]:
        runs = [rival.run(name, number) for name in ("first", "second")]
        return {key: sum(run[key] for run in runs) for key in ("seconds", "examples")}

    sides = {"theirs": one_after_the_other, "ours": lambda number: run_together(pair, "run", number)}
    rates = alternate(sides, plan.rounds)
    what = "two runs of tiny: theirs in turn, ours side by side"
    return compare(what, rates["theirs"], rates["ours"], goal=5.0, note="ours a thread each, until both have ended")


def frozen(plan: Plan, rival: Worker, ours: Worker) -> dict[str, Any]:
    """Comparison 4: seconds, not examples; theirs is extrapolated from the cost of an example."""
    rival.make("frozen", "frozen", steps=plan.frozen_steps)
    ours.make("frozen", "frozen", epochs=plan.frozen_epochs)
    task = data.sst2(plan.rows)
    theirs_seconds, ours_seconds = [], []
    for number in range(plan.slow_rounds):
        run = rival.run("frozen", number)
        train = len(task.train) * run["seconds"] / run["examples"]
        theirs_seconds.append(TRIALS * (train + len(task.dev) * run["dev_seconds"] / run["dev_examples"]))
        ours_seconds.append(ours.run("frozen", number)["seconds"])
    line = compare(
        "frozen tiny: 3 learning rates x 5 seeds x 10 epochs",
        [1 / seconds for seconds in theirs_seconds],
        [1 / seconds for seconds in ours_seconds],
        goal=60.0,
        note=f"theirs extrapolated: {TRIALS} x a measured epoch with dev; ours is `pocketbert study`, from "
        "the files to the report, baselines too, no cache",
    )
    seconds = {"theirs": statistics.median(theirs_seconds), "ours": statistics.median(ours_seconds), "unit": "s"}
    return line | seconds


def predicting(plan: Plan, rival: Worker, ours: Worker) -> dict[str, Any]:
    """Comparison 5."""
    rival.make("predict", "predict")
    ours.make("predict", "predict")
    rates = alternate({"theirs": bound(rival, "predict"), "ours": bound(ours, "predict")}, plan.rounds)
    return compare(
        "predicting with tiny, texts to probabilities", rates["theirs"], rates["ours"], goal=4.0, note="their pipeline"
    )


def ideas(plan: Plan, shape: str, plain: Worker, ours: Worker) -> list[dict[str, Any]]:
    """What each idea buys: all off, then switched on one after the other."""
    common: dict[str, Any] = {"shape": shape, "rounds": plan.slow_rounds, "steps": dict(plan.idea_steps)[shape]}
    rows: list[tuple[str, Worker, dict[str, Any]]] = [
        ("all off", plain, {"settings": OFF, "flat": False, "short_masks": False}),
        ("+ freed memory kept, flat AdamW", ours, {"settings": OFF, "short_masks": False}),
        ("+ 16-bit dropout masks", ours, {"settings": OFF}),
    ]
    settings: dict[str, Any] = dict(OFF)
    for name, what in (
        ("group_by_length", "batches of like length"),
        ("only_cls", "last layer for [CLS] alone"),
        ("vocabulary_slice", "vocabulary slice"),
    ):
        settings = settings | {name: True}
        rows.append((f"+ {what}", ours, {"settings": settings}))
    if shape == "mini" and has_bfloat16():
        rows.append(("+ bfloat16 products", ours, {"settings": settings | {"precision": "bfloat16"}}))
    for name, worker, spec in rows:
        worker.make(f"{shape} {name}", **common, **spec)
    sides = {name: bound(worker, f"{shape} {name}") for name, worker, _ in rows}
    rates = alternate(sides, plan.slow_rounds)
    speeds = {name: statistics.median(values) for name, values in rates.items()}
    first, before = speeds["all off"], speeds["all off"]
    table = []
    for name, speed in speeds.items():
        table.append({"idea": name, "examples_per_second": speed, "times": speed / before, "in_all": speed / first})
        before = speed
    return table


def peak_share(plan: Plan, comparisons: list[dict[str, Any]], ours: Worker) -> dict[str, Any]:
    """Useful floating point a second, as a share of what one large matrix product reaches."""
    peaks = ours.call("peak", size=plan.peak_size)
    lengths = data.tokenizer()(data.sst2(plan.rows).train.texts, max_length=128).lengths
    speeds = {line["what"]: line for line in comparisons}
    rows = []
    for shape in ("tiny", "mini"):
        useful = flops.training_flops(SHAPES[shape], lengths) / len(lengths)
        line = speeds[f"fine-tuning {shape}"]
        precision = "bfloat16" if "bfloat16" in line["note"] else "float32"
        cases = [("transformers", line["theirs"], "float32"), ("pocketbert", line["ours"], precision)]
        if precision != "float32":
            cases.append(("pocketbert", speeds[f"fine-tuning {shape}, ours in float32"]["ours"], "float32"))
        for who, speed, kind in cases:
            reached = useful * speed / 1e9
            share = reached / peaks[kind]
            row = {"shape": shape, "who": who, "precision": kind, "mflop_per_example": useful / 1e6}
            rows.append(row | {"gflops": reached, "share": share})
    return {"peak_gflops": peaks, "mean_tokens": float(lengths.mean()), "rows": rows}


def bound(worker: Worker, name: str) -> Round:
    return lambda number: worker.run(name, number)


def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, in one run."""
    started = time.perf_counter()
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = {shape: data.write_model(temporary, shape) for shape in ("tiny", "mini")}

        def start(side: str, shape: str = "tiny", *, threads: int = THREADS, plain: bool = False) -> Worker:
            return stack.enter_context(Worker(side, folders[shape], threads=threads, rows=plan.rows, plain=plain))

        theirs = {shape: start("theirs", shape) for shape in folders}
        ours, plain = start("ours"), start("ours", plain=True)
        pair = [start("ours", threads=1) for _ in range(2)]
        say("fine-tuning …")
        comparisons = finetuning(plan, theirs, ours)
        say("two runs side by side …")
        comparisons.append(side_by_side(plan, theirs["tiny"], pair))
        say("a frozen encoder …")
        comparisons.append(frozen(plan, theirs["tiny"], ours))
        say("predicting …")
        comparisons.append(predicting(plan, theirs["tiny"], ours))
        say("the ideas one by one …")
        table = {shape: ideas(plan, shape, plain, ours) for shape in folders}
        say("the machine's peak, and where the time goes …")
        peak = peak_share(plan, comparisons, ours)
        split = {shape: ours.call("breakdown", name=shape) for shape in folders}
    return {
        "machine": machine_facts(THREADS),
        "quick": plan == QUICK,
        "seconds": time.perf_counter() - started,
        "comparisons": comparisons,
        "ideas": table,
        "peak": peak,
        "breakdown": split,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description="pocketbert beside transformers: speed, and where it comes from"
    )
    parser.add_argument("--quick", action="store_true", help="a few steps of everything, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="fill in the marked section of a page")
    options = parser.parse_args()
    data.skip_if_missing()
    if options.quick and options.write:
        parser.error("--quick measures nothing worth writing down; leave one of --quick and --write away")
    results = measure(QUICK if options.quick else FULL, lambda line: print(line, file=sys.stderr, flush=True))
    print(as_text(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if options.write:
        write_section(options.write, results)


if __name__ == "__main__":
    main()
