"""Files appear whole or not at all."""

import json
import os

import pytest

from pocketbert.errors import UserError
from pocketbert.files import lock, new_file, new_folder, read_json, write_json


def test_a_file_whose_writing_fails_is_not_there_and_the_old_one_stays(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), new_file(target) as part:
        part.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_whose_filling_fails_is_not_there_and_the_old_one_stays(tmp_path):
    target = tmp_path / "folder"
    with new_folder(target) as part:
        (part / "one").write_text("1")
    with pytest.raises(RuntimeError), new_folder(target, overwrite=True) as part:
        (part / "two").write_text("2")
        raise RuntimeError
    assert [path.name for path in target.iterdir()] == ["one"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_two_writers_never_share_a_temporary_name(tmp_path):
    with new_file(tmp_path / "x") as one, new_file(tmp_path / "x") as two:
        assert one != two
        one.write_text("1")
        two.write_text("2")
    assert (tmp_path / "x").read_text() == "1", "the last to finish wins, whole"


def test_the_same_value_is_the_same_bytes(tmp_path):
    write_json(tmp_path / "a", {"b": 1, "a": [1.5, "é"]})
    write_json(tmp_path / "b", {"a": [1.5, "é"], "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_json(tmp_path / "a") == json.loads((tmp_path / "b").read_text())


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="cannot write: No space left on device"):
        write_json(tmp_path / "a", 1)
    assert not list(tmp_path.iterdir())


def test_one_who_waits_for_a_lock_says_so_once(tmp_path):
    heard = []
    with (
        lock(tmp_path),
        pytest.raises(UserError, match="another process"),
        lock(tmp_path, wait=0.3, say=heard.append),
    ):
        pass
    assert len(heard) == 1
    assert str(tmp_path) in heard[0]
    with lock(tmp_path, wait=1, say=heard.append):
        assert len(heard) == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_has_not_is_not_read(tmp_path, number):
    (tmp_path / "it.json").write_text(f'{{"a": [{number}]}}')
    with pytest.raises(UserError, match=f"it.json: not a JSON we read: {number} is no number"):
        read_json(tmp_path / "it.json")
