"""README is run: every command and every block of Python, on files of a reader's own, as they stand there.

What would take minutes gets flags that make it small; what needs a network or a cluster is named, and why.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
SMALL = {  # flags to add to a command, unless it has them, so that a test of it takes seconds
    "study": {
        "--rows": "60",
        "--epochs": "1",
        "--folds": "2",
        "--models": "pocket-tiny",
        "--workers": "1",
        "--repeats": "1",
    },
    "train": {"--epochs": "1"},
    "pretrain": {"--steps": "2", "--checkpoints": "1", "--vocabulary-size": "300"},
}
ELSEWHERE = {  # commands that are not run here
    "bench": "minutes of measuring",
    "pocketbert serve": "goes on until it is ended: tests/serve",
    "HOST": "needs a Ray cluster: tests/study/test_ray.py",
    "path/": "the reader's own",
    "--teacher": "minutes of asking a teacher: tests/pretraining/test_teacher.py",
}
ONLY_PLANNED = ("--preset", "sst2 rte")  # real data, many trainings: planned, not run


def commands() -> list[str]:
    lines = [line for kind, block in BLOCKS if kind == "bash" for line in block.splitlines()]
    found = [re.split(r"\s+#\s", line)[0].strip() for line in lines if line.startswith("pocketbert ")]
    assert len(found) > 12
    return [line for line in found if not any(word in line for word in ELSEWHERE)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder such as a reader's: files of their own, and what earlier lines left there."""
    folder = tmp_path_factory.mktemp("desk")
    words = {"good": "lovely warm funny honest", "bad": "dull cold slow empty"}
    for number, name in enumerate(("reviews", "more", "held_out", "new")):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            labelled = name != "new"
            writer.writerow(["text", "label"] if labelled else ["text"])
            for row in range(120):
                label = ("good", "bad")[row % 2]
                word = words[label].split()[row // 2 % 4]
                text = f"a {word} film about number {row} of {number}, seen on day {row * 7 % 31}"
                writer.writerow([text, label] if labelled else [text])
    (folder / "corpus").mkdir()
    (folder / "corpus" / "book.txt").write_text(
        "\n\n\n".join(f"It was day {row}. The film went on." for row in range(300))
    )
    return folder


def environment(desk: Path) -> dict[str, str]:
    data = os.environ.get("POCKETBERT_DATA") or str(ROOT.parent / "shared" / "data")
    return {**os.environ, "POCKETBERT_HOME": str(desk / "home"), "POCKETBERT_DATA": data}


def test_the_commands_of_the_readme_do_what_they_say_one_after_the_other(desk):
    for line in commands():
        arguments = shlex.split(line)[1:]
        if any(word in line for word in ONLY_PLANNED):
            if not Path(environment(desk)["POCKETBERT_DATA"], "sst2_classic").is_dir():
                continue  # the real data are not here
            arguments.append("--dry-run")
        else:
            small = {flag: value for flag, value in SMALL.get(arguments[0], {}).items() if flag not in arguments}
            if "tfidf" in arguments:
                del small["--epochs"]
            if "--minutes" in arguments:
                small.pop("--repeats", None)  # the minutes decide
            if any(argument.endswith(".csv") for argument in arguments):
                small.pop("--rows", None)  # the reader's files are small
            if arguments[0] == "pretrain":
                place = arguments.index("--minutes")
                del arguments[place : place + 2]
            arguments += [part for pair in small.items() for part in pair]
        done = subprocess.run(
            [sys.executable, "-m", "pocketbert", *arguments],
            cwd=desk,
            env=environment(desk),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("number", range(sum(kind == "python" for kind, _ in BLOCKS)))
def test_a_block_of_python_of_the_readme_runs(number, desk):
    block = [block for kind, block in BLOCKS if kind == "python"][number]
    texts = "texts = [f'a {word} film {n}' for n in range(40) for word in ('fine', 'dull')]\n"
    given = texts + "labels = ['good', 'bad'] * 40\n"
    done = subprocess.run(
        [sys.executable, "-c", given + block],
        cwd=desk,
        env=environment(desk),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{block}\n{done.stderr}"


def test_the_makefile_has_what_the_readme_asks_it_for():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    asked = {
        name for kind, block in BLOCKS if kind == "bash" for name in re.findall(r"^make ([\w-]+)", block, re.MULTILINE)
    }
    assert asked <= set(targets)
    assert {"study", "test"} <= asked
