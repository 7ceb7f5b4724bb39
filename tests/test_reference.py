"""The reference: every public name is explained to its last argument, with an example that was run; no link is dead."""

import csv
import doctest
import importlib.util
import inspect
import os
import re
import sys
from dataclasses import fields, is_dataclass

import pytest
from conftest import REPOSITORY

import pocketbert

BUILD = REPOSITORY / "docs" / "api" / "build.py"
specification = importlib.util.spec_from_file_location("reference_build", BUILD)
build = importlib.util.module_from_spec(specification)
specification.loader.exec_module(build)

EXAMPLES = build.read_examples()
NAMES = [name for name in pocketbert.__all__ if name != "__version__"]


def arguments(value) -> list[str]:
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    if inspect.isclass(value) and value.__init__ in (object.__init__, ValueError.__init__):
        return []
    names = inspect.signature(value).parameters
    return [name for name in names if name != "self"]


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_of_a_public_name_is_explained(name):
    value = getattr(pocketbert, name)
    explained = set(re.findall(r"\w+", f"{value.__doc__}\n{EXAMPLES[name].split('```')[0]}"))
    assert [argument for argument in arguments(value) if argument not in explained] == []


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(pocketbert, name))])
def test_every_public_method_says_what_it_does(name):
    kind = getattr(pocketbert, name)
    own = {key: value for key, value in vars(kind).items() if not key.startswith("_")}
    explained = re.findall(r"\w+", EXAMPLES[name].split("```")[0])
    bare = [key for key, value in own.items() if callable(value) and not getattr(kind, key).__doc__]
    assert [key for key in bare if key not in explained] == []


def test_the_examples_of_every_public_name_are_run(tmp_path, monkeypatch):
    assert set(EXAMPLES) == set(pocketbert.__all__)
    monkeypatch.chdir(tmp_path)
    words = {"good": "lovely warm funny honest", "bad": "dull cold slow empty"}
    rows = []
    for number in range(120):
        label = ("good", "bad")[number % 2]
        rows.append((f"a {words[label].split()[number // 2 % 4]} film about number {number}", label))
    with open("reviews.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    given = {"texts": [text for text, _ in rows], "labels": [label for _, label in rows]}
    page = build.EXAMPLES.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(page, given, "examples.md", str(build.EXAMPLES), 0)
    assert len(test.examples) > 2 * len(NAMES) - 5
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted >= len(NAMES)


@pytest.mark.slow
def test_the_reference_is_built_offline_and_every_link_leads_somewhere(tmp_path):
    import subprocess

    done = subprocess.run(
        [sys.executable, str(BUILD), str(tmp_path / "site")], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "pocketbert.html").read_text(encoding="utf-8")
    for name in NAMES:
        assert f'id="{name}"' in page, name
    assert page.count("Example:") >= len(NAMES)


def test_a_dead_link_and_a_fetched_file_are_found(tmp_path):
    (tmp_path / "one.html").write_text(
        '<a href="two.html">a</a><a href="#gone">b</a><a href="#here" id="here">c</a><a href="https://example.org">d</a>'
        '<script src="https://example.org/x.js"></script>'
    )
    assert [line.split(", ")[0] for line in build.wrong_links(tmp_path)] == [
        "one.html fetches https://example.org/x.js",
        "one.html links to two.html",
        "one.html links to #gone",
    ]
