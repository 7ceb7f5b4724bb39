"""A study.toml with any value of any type in any place is a study, or one line that names the file and the key."""

from dataclasses import fields

import pytest

from pocketbert.errors import UserError
from pocketbert.methods import list_methods
from pocketbert.study.rows import Row
from pocketbert.study.study import KEYS, Study, from_config

# Every kind of value that TOML has, and the extremes of each.
VALUES = {
    "zero": "0", "minus": "-1", "huge": "1" + "0" * 25, "digits": "9" * 4_000, "float": "2.5", "nan": "nan",
    "inf": "-inf", "tiny": "1e-400", "bool": "true", "text": "'odd'", "empty": "''", "nul": '"a\\u0000b"',
    "lines": '"a\\nb"', "list": "[]", "numbers": "[1, 2]", "texts": "['a', 'a']", "mixed": "[1, 'a', nan]",
    "nested": "[[['a']]]", "tables": "[{a = 1}]", "table": "{a = 1}", "bare": "{}", "date": "2020-01-01",
    "time": "07:32:00", "moment": "1979-05-27T07:32:00Z",
}  # fmt: skip
RIGHT = {  # what a place may hold; all else must be refused
    "tasks": {"text", "texts", "empty", "lines", "list"},
    "models": {"texts", "list"},
    "methods": {"texts", "list"},
    "preset": {"text", "empty", "lines"},
    "hub": {"bool"},
    "minutes": {"float", "tiny"},
    "curves": {"texts", "list"},
    "adapters": {"bare", "table"},
    "others": {"texts", "list"},
    "name": {"text", "empty", "lines"},
    "out": {"text", "empty", "lines"},
    "settings": {"bare", "table"},
    "row": {"list", "tables"},
}
FLAGS = {"class_weights", "group_by_length", "only_cls", "vocabulary_slice", "cache_features", "keep_rate", "curve"} | {
    "audit",
    "forward_transfer",
}
TEXTS = {"task", "method", "model", "start", "rate_from", "vocabulary", "device", "theirs", "note"}
WHOLE = {"patience": {"zero"}, "seed": {"zero"}, "folds": {"zero"}}
SHARES = {
    "dropout": {"zero", "tiny"},
    "margin": {"zero", "tiny"},
    "weight_decay": {"zero", "tiny"},
    "warmup": {"zero", "tiny"},
    "replay": {"zero", "tiny"},
    "lora_alpha": {"float"},
}


def right(key: str) -> set[str]:
    if key in FLAGS:
        return {"bool"}
    if key in TEXTS:
        return {"text", "empty", "lines"}
    known = {**RIGHT, **WHOLE, **SHARES, "clip": {"zero", "tiny", "float"}, "learning_rate": {"float", "numbers"}}
    return known.get(key, set())


def refusal(path) -> str | None:
    try:
        from_config(path)
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize("value", VALUES)
def test_a_value_of_a_wrong_type_is_named_with_its_file_its_key_and_what_is_expected(tmp_path, value):
    path = tmp_path / "study.toml"
    row = [field.name for field in fields(Row)]
    places = [("", key) for key in KEYS]
    settings = {field.name for method in list_methods().values() for field in fields(method.settings)}
    places += [("[settings]\n", name) for name in sorted(settings)]
    places += [("[[row]]\nmethod = 'majority'\n", name) for name in row if name != "method"]
    for table, key in places:
        if value in right(key):
            continue
        path.write_text(f"{table}{key} = {VALUES[value]}\n")
        said = refusal(path)
        assert said is not None, (table, key, value)
        assert said.startswith(f"{path}: "), said
        assert key in said, said
        assert " is not " in said, said
        assert "\n" not in said
        assert len(said) < 400


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"seeds = " + b"9" * 5_000, "not TOML: Exceeds the limit"),
        (b"tasks = " + b"[" * 5_000, "nested too deeply"),
        (b"tasks = 'caf\xe9'", "not TOML: 'utf-8' codec"),
        (b"tasks = 2020-02-31", "not TOML"),
        (b"#" * 2_000_000, "another kind of file"),
        (b"[[row]]\nmethod = 'majority'\nsettings = 3", "settings of a \\[\\[row\\]\\]: 3 is not an object"),
        (b"[[row]]\nmethod = ['majority']", "method: the list"),
    ],
)
def test_a_file_that_is_no_toml_or_no_study_is_one_line(tmp_path, content, says):
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        from_config(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["..", "../..", "/", ".", "a/../b", "\\..\\x"])
def test_a_study_is_never_named_into_a_folder_above(task, name):
    folder = Study(task, methods=[], name=name).folder
    assert len(folder.parts) == 2
    assert not folder.name.startswith(".")


@pytest.mark.parametrize(
    "arguments",
    [
        {"seeds": "3"}, {"seeds": 0}, {"seeds": 10**20}, {"seeds": True}, {"rows": 1}, {"rows": 10**20}, {"rows": "2"},
        {"models": [3]}, {"methods": [["tfidf"]]}, {"methods": "a\0b"}, {"preset": 3}, {"name": 3},
    ],
)  # fmt: skip
def test_the_library_refuses_what_the_file_would(task, arguments):
    with pytest.raises(UserError, match=f"{next(iter(arguments))}.* is not "):
        Study(None if "preset" in arguments else task, **arguments)


@pytest.mark.parametrize("flag", ["--text", "--text2", "--label", "--encoding"])
@pytest.mark.parametrize("where", ["config", "preset", "nothing"])
def test_a_column_of_no_file_is_refused(tmp_path, flag, where):
    from typer.testing import CliRunner

    from pocketbert.cli import app

    (tmp_path / "study.toml").write_text("tasks = ['reviews.csv']\n")
    source = {"config": ["--config", str(tmp_path / "study.toml")], "preset": ["--preset", "utah"], "nothing": []}
    done = CliRunner().invoke(app, ["study", *source[where], flag, "latin-1", "--dry-run"])
    assert isinstance(done.exception, UserError), done.output
    assert f"{flag} latin-1" in str(done.exception)
    assert "name the file" in str(done.exception)
