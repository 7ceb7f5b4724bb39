"""What does each ingredient of pretraining buy? Tiny, the same minutes each, fine-tuned and frozen on SST-2.

    python -m benchmarks.ingredients CORPUS… --out FOLDER [--minutes 4] [--seeds 3]

Every seed pretrains a model of its own and then trains on the task with it, so the spread holds both. All have one
vocabulary and one learning rate. What a teacher costs before the first step (its vectors are kept) is not counted in
the minutes. The same command again goes on where it stopped.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.report import align
from pocketbert.runs import load_run
from pocketbert.statistics import Outcomes, compare, estimate
from pocketbert.study.store import read_predictions
from pocketbert.training.settings import usable_cores

TEACHER = ["--teacher", "minilm-l6", "--teacher-batch", "256", "--text-weight", "0.2"]
VARIANTS: dict[str, list[str] | None] = {  # in the order in which they build on each other
    "scratch": None,
    "left to right": ["--causal", "--no-nsp"],
    "masked words": ["--no-nsp"],
    "masked words, next sentences": [],
    "… and a teacher": TEACHER,
    "… and its word vectors": [*TEACHER, "--teacher-words"],
    "… and its words' states": [*TEACHER, "--teacher-words", "--teacher-layer", "5"],
}
METHODS = ("finetune", "frozen")


def pocketbert(*arguments: str) -> None:
    """A command in a process of its own, of one thread."""
    done = subprocess.run(
        [sys.executable, "-m", "pocketbert", *arguments, "--threads", "1", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"pocketbert {' '.join(arguments)}\n{done.stderr}")


def one(number: int, seed: int, options: argparse.Namespace) -> None:
    """Pretrain one variant with one seed, and train on the task with it."""
    flags = list(VARIANTS.values())[number]
    folder = options.out / f"{number}-seed{seed}"
    seeded = ["--seed", str(seed)]
    if flags is None:
        for_scratch = ["--method", "scratch", "--model", "tiny", "--vocabulary", options.vocabulary]
        pocketbert("train", options.task, *for_scratch, *seeded, "--out", f"{folder}-finetune")
        return
    common = ["--size", "tiny", "--minutes", str(options.minutes), "--vocabulary", options.vocabulary]
    # Left to right every word is asked for, so a measurement takes three times as long: a third of them.
    rest = ["--batch-size", "32", "--learning-rate", "0.002", "--cache", f"{options.out}/cache"]
    rest += ["--checkpoints", "3" if "--causal" in flags else "10"]
    sentences = ["--teacher-sentences", str(options.sentences)] if "--teacher" in flags else []
    pocketbert("pretrain", *map(str, options.corpus), *common, *rest, *flags, *sentences, *seeded, "--out", str(folder))
    for method in METHODS:
        named = ["--method", method, "--model", str(folder)]
        pocketbert("train", options.task, *named, *seeded, "--out", f"{folder}-{method}")


def outcomes(number: int, method: str, options: argparse.Namespace) -> Outcomes | None:
    """Was each test sentence told rightly, with each seed?"""
    folders = [options.out / f"{number}-seed{seed}-{method}" for seed in range(options.seeds)]
    if not all(folder.is_dir() for folder in folders):
        return None
    return Outcomes.from_correct(np.stack([read_predictions(load_run(folder), "test")[1] for folder in folders]))


def cells(number: int, options: argparse.Namespace) -> list[str]:
    row = []
    for method in METHODS:
        own = outcomes(number, method, options)
        if own is None:
            row += ["–", "–"]
            continue
        found = estimate(own)
        std = "" if found.std is None else f" ± {100 * found.std:.1f}"
        row.append(f"{100 * found.mean:.1f}{std} ({100 * found.low:.1f} to {100 * found.high:.1f})")
        before = outcomes(number - 1, method, options) if number else None
        if before is None:
            row.append("–")
        else:
            gain = compare(own, before)
            row.append(f"{100 * gain.effect:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingredients", description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--vocabulary", default="pocket-tiny")
    parser.add_argument("--minutes", type=float, default=4, help="of one thread, for each model")
    parser.add_argument("--sentences", type=int, default=60_000, help="that the teacher is asked about")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [(number, seed) for seed in range(options.seeds) for number in reversed(range(len(VARIANTS)))]
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda job: one(*job, options), jobs))
    head = ["", "fine-tuned, test %", "gain over the row above", "frozen, test %", "gain"]
    print("\n".join(align([head, *([name, *cells(number, options)] for number, name in enumerate(VARIANTS))])))


if __name__ == "__main__":
    main()
