"""Any study.toml, run folder, model folder and command line: no traceback, no signal, no hang; --json is one document.

Flags are found by walking the commands, so that a new one is tried the day it is added. Nothing that is generated
leaves the case's own folder, reaches for the network, or trains more than a baseline.
"""

import hashlib
import json
import os
import shutil
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main
from conftest import VOCABULARY, hugging_face_bert
from forking import SECONDS, Forks
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pocketbert.cli import app
from pocketbert.methods import list_methods
from pocketbert.study.rows import Row
from pocketbert.study.study import KEYS

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs fork and pidfd_open")


def cases(count: int):
    """So many, the same ones every time; a failure is shown as it was found."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


FEW, MANY = cases(75), cases(900)
METHODS = ("random", "majority", "tfidf")
TABLE = "text,label\n" + "".join(f"a good film {i},yes\nthe bad film {i},no\n" for i in range(20))


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    server = Forks(tmp_path_factory.mktemp("home"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory, forks) -> Path:
    """What cases begin with: a table, a run of each baseline as a study's, a model."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "data.csv").write_text(TABLE)
    (folder / "study" / "runs").mkdir(parents=True)
    for method in METHODS:
        done = forks.run(folder, ["train", "data.csv", "--method", method, "--out", f"study/runs/{method}"])
        assert done.code == 0, done.err
    hugging_face_bert().save_pretrained(folder / "model")
    (folder / "model" / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": 64}))
    return folder


@pytest.fixture
def attempt(tmp_path, template, forks):
    """Run a command in a fresh copy of the template that `spoil` has changed; what is wrong fails the test."""
    counts: Counter[str] = Counter()

    def run(arguments, as_json, spoil=lambda folder: None) -> None:
        folder = tmp_path / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        spoil(folder)
        words = 2 if arguments[0] == "models" and arguments[1:2] in (["show"], ["import"]) else 1
        line = [*arguments[:words], *(["--json"] if as_json else []), *arguments[words:]]
        done = forks.run(folder, line)
        counts[f"exit {done.code}"] += 1
        fault = done.fault(as_json)
        assert fault is None, f"{fault}\npocketbert {line}\n{done.err[-3000:]}\n{done.out[-300:]!r}"

    yield run
    print(f"{sum(counts.values())} cases: {dict(counts)}")


# -- values ----------------------------------------------------------------------------------------------------------

NAMES = ["data.csv", "tiny", "tfidf", "majority", "model", "study"]
# Nothing that leaves the case's folder: no path, no home, no folder above.
any_text = st.text(st.characters(exclude_characters="/\\~\0", exclude_categories=["Cs"]), max_size=12)
odd_text = st.sampled_from(["", " ", *NAMES, "x" * 5_000, "a\nb", "[/red]", "=1+1", "é", "😀"]) | any_text.filter(
    lambda text: ".." not in text
)
odd_number = st.sampled_from(
    [0, -1, 1, 2, 3, 10**9, 10**20, -(10**20), 2**32, 2**63, 2**64, 0.5, -0.0, 1e-320, 1e308, -1e308]
) | st.integers(-5, 300)
not_finite = st.sampled_from([float("nan"), float("inf"), float("-inf")])
plain = st.none() | st.booleans() | odd_number | odd_text
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=6,
)


def toml(value) -> str:
    """A value as TOML; None, which it has not, is a date."""
    if value is None:
        return "1979-05-27"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def mutate(content, path, value):
    """Put a value (or, for Ellipsis, nothing) at a place that is found by walking so many entries down."""
    here = content
    for step in path[:-1]:
        entries = list(here) if isinstance(here, dict) else list(range(len(here)))
        below = [entry for entry in entries if isinstance(here[entry], dict | list) and here[entry]]
        if not below:
            break
        here = here[below[step % len(below)]]
    entries = list(here) if isinstance(here, dict) else list(range(len(here)))
    if value is ...:
        del here[entries[path[-1] % len(entries)]]
    elif path[-1] % 11 == 10 and isinstance(here, dict):
        here["extra"] = value
    else:
        here[entries[path[-1] % len(entries)]] = value


paths = st.lists(st.integers(0, 40), min_size=1, max_size=4)
changes = st.lists(st.tuples(paths, anything | not_finite | st.just(...)), min_size=1, max_size=3)


# -- study.toml ------------------------------------------------------------------------------------------------------

SETTINGS = sorted({one.name for method in list_methods().values() for one in fields(method.settings)})
setting_tables = st.dictionaries(
    st.sampled_from(SETTINGS),
    plain | anything,
    max_size=3,
)
row_tables = st.dictionaries(st.sampled_from([one.name for one in fields(Row)]), anything, max_size=3).map(
    lambda row: {"method": "majority", **row}
)
GOOD = {
    "methods": ["tfidf"],
    "seeds": 2,
    "rows": 20,
    "name": "it",
    "settings": {"epochs": 2, "learning_rate": [1e-3, 0.1]},
}
KINDS = {"row": st.lists(row_tables, min_size=1, max_size=3), "settings": setting_tables, "seeds": st.integers(1, 4)}
studies = (
    st.lists(st.sampled_from(sorted(KEYS)), max_size=2, unique=True)
    .flatmap(lambda names: st.fixed_dictionaries({name: KINDS.get(name, anything) | anything for name in names}))
    .map(lambda changed: "".join(f"{name} = {toml(value)}\n" for name, value in {**GOOD, **changed}.items()))
)
files = studies | studies | studies | st.binary(max_size=80)


def try_toml(attempt, content, as_json, named) -> None:
    def spoil(folder: Path) -> None:
        (folder / "study.toml").write_bytes(content.encode() if isinstance(content, str) else content)

    attempt(["study", "--config", "study.toml", "--dry-run", *(["data.csv"] if named else [])], as_json, spoil)


# -- run folders -----------------------------------------------------------------------------------------------------

RUN_FILES = ("settings.json", "metrics.json", "manifest.json", "model", "../../index.json")


def spoil_run(folder: Path, method: str, name: str, change, *, consistent: bool) -> None:
    """Change a JSON file of a run; `consistent`: and the manifest with it, as one would who knows."""
    run = folder / "study" / "runs" / method
    path = next((run / "model").glob("*.json"), run / "settings.json") if name == "model" else run / name
    if name.endswith("index.json"):
        entry = {"task": "data", "method": method, "model": None, "seed": 0, "scores": {}, "seconds": 1.0}
        stamp = (run / "manifest.json").stat().st_mtime_ns
        path.write_text(json.dumps({"format": 1, "runs": {method: {**entry, "stamp": stamp}}}))
    content = json.loads(path.read_text())
    for place, value in change:
        if isinstance(content, dict | list) and content:
            mutate(content, place, value)
    path.write_text(json.dumps(content))
    manifest = json.loads((run / "manifest.json").read_text())
    if consistent and name in ("settings.json", "metrics.json", "model"):
        data = path.read_bytes()
        own = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest["files"][path.relative_to(run).as_posix()] = own
        (run / "manifest.json").write_text(json.dumps(manifest))


def commands_on(method: str) -> list[list[str]]:
    run = f"study/runs/{method}"
    return [
        ["predict", run, "data.csv", "--out", "out.csv"],
        ["evaluate", run, "data.csv", "--allow-overlap"],
        ["export", run, "exported"],
        ["runs", "study"],
        ["train", "data.csv", "--method", method, "--out", run],
    ]


run_cases = st.tuples(
    st.sampled_from(METHODS),
    st.sampled_from(RUN_FILES),
    changes,
    st.integers(0, 4),
    st.sampled_from([True, True, False]),
)


def try_run(attempt, case, as_json) -> None:
    method, name, change, command, consistent = case
    attempt(
        commands_on(method)[command],
        as_json,
        lambda folder: spoil_run(folder, method, name, change, consistent=consistent),
    )


# -- model folders ---------------------------------------------------------------------------------------------------

model_cases = st.tuples(st.sampled_from(["config.json", "tokenizer_config.json"]), changes, st.booleans())


def try_model(attempt, case, as_json) -> None:
    name, change, show = case

    def spoil(folder: Path) -> None:
        content = json.loads((folder / "model" / name).read_text())
        for place, value in change:
            if content:
                mutate(content, place, value)
        (folder / "model" / name).write_text(json.dumps(content))

    encode = ["encode", "data.csv", "--model", "model", "--out", "out.npy", "--text", "text"]
    attempt(["models", "show", "model"] if show else encode, as_json, spoil)


# -- command lines ---------------------------------------------------------------------------------------------------


def walk(command, words=()):
    """Every command with the words that call it."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from walk(below, (*words, name))
        if words:
            yield words, command
    else:
        yield words, command


COMMANDS = dict(walk(typer.main.get_command(app)))
# What keeps a command harmless and quick, whatever else it is told: of two values the parser takes the last.
HARMLESS = {
    ("study",): ["--dry-run", "--repeats", "1"],
    ("pretrain",): ["missing.txt"],
    ("bench",): ["--task", "missing"],
    ("train",): ["--method", "majority"],
}
ARGUMENTS = {
    ("predict",): [["study/runs/majority", "data.csv"], ["study/runs/random", "study/runs/tfidf"]],
    ("evaluate",): [["study/runs/tfidf", "data.csv"], ["study/runs/majority", "data.csv:test"]],
    ("export",): [["study/runs/majority", "exported"]],
    ("encode",): [["data.csv", "--model", "model"]],
    ("fill",): [["a [MASK] film", "--model", "model"]],
    ("runs",): [["study"]],
    ("models", "show"): [["tiny"], ["model"]],
}
likely = st.sampled_from(["1", "8", "0.1", "text", "label", "utf-8", "linear", *NAMES])
odd_flags = st.sampled_from(["1e400", "1,2", ",", "0x10", "true", "\udcff"])
as_flags = (odd_number | not_finite).map(str) | odd_text | odd_flags


@st.composite
def lines(draw):
    words = draw(st.sampled_from(sorted(COMMANDS)))
    options = [one for one in COMMANDS[words].params if one.param_type_name == "option" and "--json" not in one.opts]
    chosen = draw(st.lists(st.sampled_from(options), max_size=3, unique_by=id)) if options else []
    line = [*words]
    for option in chosen:
        line.append(draw(st.sampled_from([*option.opts, *option.secondary_opts])))
        if not option.is_flag:
            line.append(draw(likely | as_flags))
    takes = [one for one in COMMANDS[words].params if one.param_type_name == "argument"]
    usual = draw(st.sampled_from(ARGUMENTS.get(words, [["data.csv"] if takes else []])))
    line += usual if draw(st.integers(0, 4)) else draw(st.lists(as_flags, max_size=3))
    if words in (("train",), ("pretrain",)) and draw(st.integers(0, 9)):
        line += ["--out", "out"]
    return [*line, *HARMLESS.get(words, [])]


# -- the tests -------------------------------------------------------------------------------------------------------


@FEW
@given(content=files, as_json=st.booleans(), named=st.sampled_from([True, True, True, False]))
def test_any_study_toml_is_a_plan_or_one_line(attempt, content, as_json, named):
    try_toml(attempt, content, as_json, named)


@FEW
@given(case=run_cases, as_json=st.booleans())
def test_any_edit_of_a_run_folder_is_used_or_refused_in_one_line(attempt, case, as_json):
    try_run(attempt, case, as_json)


@FEW
@given(case=model_cases, as_json=st.booleans())
def test_any_edit_of_a_model_folder_is_used_or_refused_in_one_line(attempt, case, as_json):
    try_model(attempt, case, as_json)


@FEW
@given(line=lines(), as_json=st.booleans())
def test_any_command_line_is_obeyed_or_refused_in_one_line(attempt, line, as_json):
    attempt(line, as_json)


@pytest.mark.slow
@MANY
@given(content=files, as_json=st.booleans(), named=st.sampled_from([True, True, True, False]))
def test_nine_hundred_study_tomls(attempt, content, as_json, named):
    try_toml(attempt, content, as_json, named)


@pytest.mark.slow
@MANY
@given(case=run_cases, as_json=st.booleans())
def test_nine_hundred_run_folders(attempt, case, as_json):
    try_run(attempt, case, as_json)


@pytest.mark.slow
@MANY
@given(case=model_cases, as_json=st.booleans())
def test_nine_hundred_model_folders(attempt, case, as_json):
    try_model(attempt, case, as_json)


@pytest.mark.slow
@MANY
@given(line=lines(), as_json=st.booleans())
def test_nine_hundred_command_lines(attempt, line, as_json):
    attempt(line, as_json)


def test_a_hang_and_a_crash_are_seen(tmp_path, forks):
    done = forks.run(tmp_path, ["models", "show", "tiny", "--json"])
    assert done.fault(as_json=True) is None
    assert done.seconds < SECONDS
    assert "not one document" in (done.__class__(0, done.out * 2, "", 0.1).fault(as_json=True) or "")
    assert "exit code -11" in (done.__class__(-11, b"", "", 0.1).fault(as_json=False) or "")
