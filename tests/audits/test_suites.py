"""Suites from files: what they say, and what is wrong with them."""

import json
import subprocess
import sys

import pytest

import pocketbert as pb
from audits.conftest import biased
from pocketbert.audits.suite_files import read_suite, write_suite
from pocketbert.audits.suites import pronouns
from pocketbert.errors import UserError

ROWS = [
    f'{number},{group},"{who} was {word} today",{word},{label}'
    for number, (word, label) in enumerate(
        [("kind", "positive"), ("late", "negative"), ("good", "positive"), ("slow", "negative"), ("warm", "positive")]
    )
    for group, who in (("man", "he"), ("woman", "she"), ("man*", "now he"))
]


def test_a_file_gives_its_own_groups_templates_controls_and_right_labels(table):
    result = pb.audit(biased(-0.5), table(*ROWS))
    (line,) = result.comparisons
    assert line.pair == "woman-man"
    assert (line.n, line.templates) == (5, 5)
    assert line.mean_change < 0
    assert set(line.accuracy) == {"man", "woman"}
    assert [control.pair for control in result.controls] == ["control of man"]


def test_what_is_written_is_read_again(tmp_path):
    made = pronouns(pair=True, small=True)
    write_suite(made, tmp_path / "pairs.csv")
    again = read_suite(tmp_path / "pairs.csv")
    assert {item.id: item.texts for item in again.items} == {item.id: item.texts for item in made.items}
    assert again.pair


@pytest.mark.parametrize(
    ("columns", "rows", "says"),
    [
        ("id,group,text", ["1,he,he left", "2,he,he came"], "one side only: no id has two groups"),
        ("id,group,text", ["1,he,he left", "2,she,she came"], "one side only"),
        ("id,text", ["1,he left"], "no column 'group'"),
        ("id,group,text", ["1,he,he left", "1,he,he came"], "has group 'he' twice"),
        ("id,group,text", ["1,he,he left", "1,,she left"], "no group"),
        ("id,group,text", ["1,he,he left", "1,she,she left", "1,it*,it left"], "which no row has"),
        (
            "id,group,text,expected",
            ["1,he,he left,good", "1,she,she left,bad"],
            "differ in template or expected",
        ),
    ],
)
def test_a_bad_file_is_said(table, columns, rows, says):
    with pytest.raises(UserError, match=says.replace("*", r"\*")):
        read_suite(table(*rows, columns=columns))


def test_too_few_templates_are_never_flagged(table):
    (line,) = pb.audit(biased(-3.0), table(*ROWS[:9])).comparisons
    assert not line.flagged
    assert not line.equivalent
    assert "too few to tell" in line.sentence


def test_winogender_and_winobias_are_read_where_they_are(data, monkeypatch):
    monkeypatch.setenv("POCKETBERT_DATA", str(data))
    if not (data / "winogender").is_dir():
        pytest.skip("no Winogender in the data")
    result = pb.audit(biased(-0.5), "winogender")
    assert result.items == 240
    assert [line.pair for line in result.comparisons] == ["she-he", "they-he", "they-she"]
    assert result.comparisons[0].flagged
    bias = pb.audit(biased(-0.5), "winobias")
    assert bias.comparisons[0].mean_change < 0
    assert bias.items > 1_500


def test_where_they_are_not_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("POCKETBERT_DATA", str(tmp_path))
    with pytest.raises(UserError, match="set POCKETBERT_DATA"):
        pb.audit(biased(0.0), "winogender")


def command(*arguments, **more):
    done = [sys.executable, "-m", "pocketbert", *map(str, arguments)]
    return subprocess.run(done, capture_output=True, text=True, check=False, **more)


def test_the_command_on_a_run_and_on_a_model(tmp_path):
    texts = [f"{who} said that it was {word} {n}" for n in range(20) for who, word in (("he", "good"), ("she", "bad"))]
    clf = pb.Classifier(method="tfidf").fit(texts, ["good", "bad"] * 20)
    clf.save(tmp_path / "run")
    done = command("audit", tmp_path / "run", "--suite", "pronouns,names", "--small", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["suite"] for one in found["audits"]] == ["pronouns", "names"]
    line = next(one for one in found["comparisons"] if one["pair"] == "she-he")
    assert line["flagged"]
    assert line["mean_change"] < 0
    shown = command("audit", tmp_path / "run", "--small", "--pairs", tmp_path / "pairs.csv")
    assert shown.returncode == 0, shown.stderr
    assert "The worst pairs" in shown.stdout
    assert (tmp_path / "pairs.csv").is_file()
    masked = command("audit", "pocket-tiny", "--json")
    assert masked.returncode == 0, masked.stderr
    preferences = json.loads(masked.stdout)["preferences"]
    assert len(preferences) >= 20
    assert all(one["he"] + one["she"] + one["they"] == pytest.approx(1) for one in preferences)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nosuch"], "nosuch"),
        (["RUN", "--suite", "nosuch"], "no suite is called so"),
        (["RUN", "--suite", ","], "names none"),
        (["RUN", "--texts", "x.csv"], "say --suite own"),
        (["RUN", "--of", "fair"], "label 'fair'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(tmp_path, arguments, says):
    pb.Classifier(method="tfidf").fit(["good film", "bad film"] * 9, ["good", "bad"] * 9).save(tmp_path / "run")
    done = command("audit", *[str(tmp_path / "run") if one == "RUN" else one for one in arguments])
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
