"""Files appear whole or not at all."""

import json
import os
import stat

import numpy as np
import pytest
from nodes import no_files

from pocketbert.errors import UserError
from pocketbert.files import new_file, new_folder, read_json, write_json
from pocketbert.locks import lock
from pocketbert.paths import require_regular_file


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


def test_what_is_no_file_is_refused_as_input_and_nothing_waits(tmp_path):
    for kind, path in no_files(tmp_path).items():
        for read in (require_regular_file, read_json):
            with pytest.raises(UserError, match=f"is a {kind}, not a file; save what it gives to a file first"):
                read(path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("pipe")
    for name, message in [("", "this is a folder"), ("gone", "no such file"), ("link", "is a pipe")]:
        with pytest.raises(UserError, match=message):
            require_regular_file(tmp_path / name)
    with pytest.raises(UserError, match="cannot read"):
        require_regular_file(tmp_path / "loop")
    with pytest.raises(UserError, match="no name of a file"):
        require_regular_file("a\0b")


def test_a_link_to_a_file_is_read_as_the_file(tmp_path):
    write_json(tmp_path / "file", 1)
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == 1


def test_what_is_no_file_is_never_replaced_by_one(tmp_path):
    for kind, path in no_files(tmp_path).items():
        before = path.lstat()
        with pytest.raises(UserError, match=f"is a {kind}; name a file"):
            write_json(path, 1)
        with pytest.raises(UserError, match=f"is a {kind}; name a folder"), new_folder(path, overwrite=True):
            pass
        with pytest.raises(UserError, match=f"is a {kind}; name a folder"), lock(path):
            pass
        assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)
    write_json(tmp_path / "file", 1)
    with pytest.raises(UserError, match="is a file; name a folder"), new_folder(tmp_path / "file", overwrite=True):
        pass
    with pytest.raises(UserError, match="is a folder; name a file"):
        write_json(tmp_path, 1)


def test_a_link_stays_and_the_file_it_leads_to_is_written(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "second").symlink_to("elsewhere/file")
    for value in (1, 2):  # at first the link leads to nothing
        write_json(tmp_path / "link", value)
        assert read_json(tmp_path / "elsewhere" / "file") == value
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "file", "link", "second"]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "second").is_symlink()


def test_a_link_stays_and_the_folder_it_leads_to_is_written(tmp_path):
    (tmp_path / "link").symlink_to("folder")
    for name in ("one", "two"):
        with new_folder(tmp_path / "link", overwrite=True) as part:
            (part / name).write_text(name)
        assert [path.name for path in (tmp_path / "folder").iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]
    assert (tmp_path / "link").is_symlink()


def test_a_link_in_a_circle_is_said(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="cannot write: Too many levels of symbolic links"):
        write_json(tmp_path / "loop", 1)
    with pytest.raises(UserError, match="Too many levels"), new_folder(tmp_path / "loop"):
        pass
    assert (tmp_path / "loop").is_symlink()


def test_half_a_letter_is_written_and_read_back(tmp_path):
    write_json(tmp_path / "a", {"name": "caf\udce9"})
    assert read_json(tmp_path / "a") == {"name": "caf\udce9"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_has_not_is_not_read(tmp_path, number):
    (tmp_path / "it.json").write_text(f'{{"a": [{number}]}}')
    with pytest.raises(UserError, match=f"it.json: not a JSON we read: {number} is no number"):
        read_json(tmp_path / "it.json")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize(("umask", "file_mode", "folder_mode"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_others_may_read_what_the_person_lets_them(tmp_path, umask, file_mode, folder_mode):
    from safetensors.numpy import save_file

    before = os.umask(umask)
    try:
        with new_file(tmp_path / "weights.safetensors") as part:
            save_file({"a": np.zeros(3)}, part)  # the library makes a file of its own that nobody else may read
        with new_folder(tmp_path / "model") as part:
            save_file({"a": np.zeros(3)}, part / "weights.safetensors")
            (part / "run.sh").write_text("#!/bin/sh")
            (part / "run.sh").chmod(0o700)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "weights.safetensors").stat().st_mode) == file_mode
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == folder_mode
    assert stat.S_IMODE((tmp_path / "model" / "weights.safetensors").stat().st_mode) == file_mode
