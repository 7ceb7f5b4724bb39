"""Did a change of the code change a number? Record what this version computes, change it, compare.

    python -m benchmarks.unchanged record before.json
    …
    python -m benchmarks.unchanged compare before.json [after.json]     (after.json: keep what was found)

Every method on three models and two tasks, heads, poolings and rates, a small study and a short pretraining, all in
one thread: predictions, trained weights and the study's table, as hashes. Weights are compared by content and shape,
not by name or file, so that a format may change. The same machine and the same libraries are asked for: another
processor rounds otherwise.
"""

import csv
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.texts import write_random_text
from pocketbert import load_task
from pocketbert.cli import main
from pocketbert.runs import load_run

ROWS = {"train": 300, "dev": 80, "test": 80}
MODELS = ("pocket-tiny", "pocket-mini")
# name → arguments of `train`, beside the task
RUNS: dict[str, list[str]] = {
    **{method: ["--method", method] for method in ("random", "majority", "tfidf")},
    **{f"frozen {model}": ["--method", "frozen", "--model", model] for model in MODELS},
    **{f"finetune {model}": ["--method", "finetune", "--model", model] for model in MODELS},
    **{f"scratch {model}": ["--method", "scratch", "--model", model] for model in ("tiny", *MODELS)},
    "frozen rates": ["--method", "frozen", "--model", "pocket-tiny", "--learning-rate", "1e-3,3e-3,1e-2"],
    "frozen two-layer": ["--method", "frozen", "--model", "pocket-tiny", "--head", "two-layer", "--class-weights"],
    "frozen bilstm": ["--method", "frozen", "--model", "pocket-tiny", "--head", "bilstm", "--epochs", "2"],
    "frozen as is": ["--method", "frozen", "--model", "pocket-tiny", "--no-FEATURES", "--epochs", "3"],
    "finetune pooler rates": ["--pooling", "pooler", "--model", "pocket-tiny", "--learning-rate", "1e-4,5e-4"],
    "finetune cls": ["--pooling", "cls", "--model", "pocket-tiny", "--head", "two-layer", "--patience", "2"],
    "finetune bilstm": ["--model", "pocket-tiny", "--head", "bilstm"],
    "finetune plain": ["--model", "pocket-tiny", "--no-LENGTH", "--no-only-cls", "--no-vocabulary-slice"],
    "finetune weights": ["--model", "pocket-tiny", "--class-weights", "--schedule", "constant", "--dropout", "0.2"],
}  # fmt: skip


def write_tasks(folder: Path) -> dict[str, Path]:
    """Single texts, and pairs of them (of one label or of two), as folders of three files."""
    movies = load_task("movies")
    folders = {}
    for name in ("single", "pair"):
        folders[name] = folder / name
        folders[name].mkdir()
        for split, rows in ROWS.items():
            drawn = movies.split(split).take(np.random.default_rng(0).permutation(len(movies.split(split)))[: rows + 1])
            texts, labels = drawn.texts, drawn.labels
            assert labels is not None
            with (folders[name] / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"] if name == "single" else ["sentence1", "sentence2", "label"])
                for row in range(rows):
                    if name == "single":
                        writer.writerow([texts[row], movies.labels[labels[row]]])
                    else:
                        same = "same" if labels[row] == labels[row + 1] else "other"
                        writer.writerow([texts[row], texts[row + 1], same])
    return folders


def command(*arguments: str) -> None:
    """A command of pocketbert, in this process."""
    before, sys.argv = sys.argv, ["pocketbert", *arguments]
    try:
        main()
    except SystemExit as error:
        if error.code:
            raise RuntimeError(f"pocketbert {' '.join(arguments)} ended with {error.code}") from error
    finally:
        sys.argv = before


def hashed(*parts: bytes) -> str:
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def of_run(folder: Path) -> dict[str, Any]:
    """What a run predicted and learnt."""
    run = load_run(folder)
    found: dict[str, Any] = {name: hashed((folder / f"{name}.csv").read_bytes()) for name in ("dev", "test")}
    network = getattr(run.fitted(), "network", None)
    if network is not None:
        tensors = [p.detach().numpy() for p in network.parameters()]
        found["weights"] = sorted(hashed(str(t.shape).encode(), t.tobytes()) for t in tensors)
    best = run.metrics["best"]
    return {**found, "accuracy": run.metrics["scores"]["test"]["accuracy"], "epoch": best.get("epoch")}


def record(say: Callable[[str], None] = print) -> dict[str, Any]:
    """Every number, by name."""
    found: dict[str, Any] = {}
    flags = {"FEATURES": _flag("features", "cache-features"), "LENGTH": _flag("like-length", "group-by-length")}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tasks = write_tasks(folder)
        for task, path in tasks.items():
            more = [] if task == "single" else ["--text", "sentence1", "--text2", "sentence2"]
            for name, arguments in RUNS.items():
                given = [_renamed(argument, flags) for argument in arguments]
                out = folder / "runs" / f"{task} {name}"
                command("train", str(path), *given, *more, "--threads", "1", "--out", str(out))
                found[f"{task}: {name}"] = of_run(out)
                say(f"{task}: {name}: {found[f'{task}: {name}']['accuracy']:.4f}")
        out = folder / "study"
        wanted = ["--models", "pocket-tiny,tiny", "--seeds", "2", "--epochs", "2", "--workers", "2"]
        command("study", str(tasks["single"]), *wanted, "--out", str(out))
        lines = list(csv.DictReader((out / "results.csv").open(encoding="utf-8")))
        found["study"] = lines
        write_random_text(folder / "text.jsonl", documents=200, words=800)
        model = folder / "model"
        budget = ["--steps", "50", "--checkpoints", "5", "--batch-size", "8", "--vocabulary-size", "500"]
        cache = ["--cache", str(folder / "cache"), "--threads", "1"]
        command("pretrain", str(folder / "text.jsonl"), *budget, *cache, "--out", str(model))
        found["pretrain"] = {"weights": hashed((model / "model.safetensors").read_bytes())}
        found["pretrain"]["curve"] = json.loads((model / "metrics.json").read_text())["curve"]
        shutil.rmtree(folder / "runs")
    return found


def _flag(*names: str) -> str:
    """The first of several names, old and new, that `train` has for an option."""
    from typer.main import get_command

    from pocketbert.cli.app import app

    options = {option for one in get_command(app).commands["train"].params for option in one.opts}  # type: ignore[attr-defined]
    return next(name for name in names if f"--{name}" in options)


def _renamed(argument: str, flags: dict[str, str]) -> str:
    for name, flag in flags.items():
        argument = argument.replace(name, flag)
    return argument


def _lasting(row: dict[str, str]) -> dict[str, str]:
    """A row of results.csv without times, memory, and the key in the run's name."""
    timed = {name: value for name, value in row.items() if "second" not in name and "memory" not in name}
    return {**timed, "folder": row["folder"].rpartition("-")[0]}


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs, a line each."""
    lines = []
    before, after = ({**one, "study": [_lasting(row) for row in one["study"]]} for one in (before, after))
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old != new:
            what = [k for k in old if old[k] != (new or {}).get(k)] if isinstance(old, dict) else ["rows"]
            lines.append(f"{name}: {', '.join(what)}")
    return sorted(lines)


if __name__ == "__main__":
    what, path = sys.argv[1], Path(sys.argv[2])
    now = record(lambda line: print(line, file=sys.stderr))
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(json.dumps(now, indent=1), encoding="utf-8")
    if what == "record":
        path.write_text(json.dumps(now, indent=1), encoding="utf-8")
    else:
        differences = compare(json.loads(path.read_text(encoding="utf-8")), now)
        print("\n".join(differences) or f"nothing changed: {len(now)} results")
        sys.exit(1 if differences else 0)
