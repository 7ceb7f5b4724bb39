"""kill -9 before every single change that writing makes to the disk: the old or the new, whole, and nothing left."""

import csv
import os
import shutil

import killing
import pytest
from killing import every_kill, killed, read_folder, write_file, write_folder

from pocketbert.files import new_file, recover, remove_leftovers
from pocketbert.runs import load_run


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_killed_at_any_change_is_the_old_or_the_new(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    for at in every_kill(write_file, target, "new"):
        assert target.read_text() in ("old", "new"), at
        target.write_text("old")
        assert not killed(write_file, target, "again")
        assert names(tmp_path) == ["file"], f"left behind by kill {at}"
        target.write_text("old")
    assert at >= 3
    assert target.read_text() == "new"


@pytest.mark.parametrize("before", [None, "old"])
def test_a_folder_killed_at_any_change_is_the_old_or_the_new(tmp_path, before):
    target = tmp_path / "folder"
    seen = set()

    def as_before():
        shutil.rmtree(target, ignore_errors=True)
        if before:
            write_folder(target, before)

    as_before()
    for at in every_kill(write_folder, target, "new"):
        recover(target)
        seen.add(read_folder(target))
        assert not killed(write_folder, target, "again")
        assert read_folder(target) == "again"
        assert names(tmp_path) == ["folder"], f"left behind by kill {at}"
        as_before()
    assert seen == {before, "new"}
    assert read_folder(target) == "new"


@pytest.mark.slow
def test_a_folder_whose_mending_is_killed_too_is_never_lost(tmp_path):
    target = tmp_path / "folder"
    write_folder(target, "old")
    moments = sum(1 for _ in every_kill(write_folder, target, "new"))
    for first in range(1, moments + 1):
        for second in range(1, moments + 4, 2):
            write_folder(target, "old")
            killed(write_folder, target, "new", at=first)
            killed(write_folder, target, "newer", at=second)
            recover(target)
            assert read_folder(target) in ("old", "new", "newer"), (first, second)
    write_folder(target, "last")
    assert names(tmp_path) == ["folder"]


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    target = tmp_path / "file"
    killed(write_file, target, "killed", at=3)
    (left,) = names(tmp_path)
    with new_file(target) as living:
        living.write_text("living")
        assert names(tmp_path) == [living.name], f"{left} is still there"
        assert not killed(write_file, target, "quick")
        assert living.read_text() == "living"
    assert target.read_text() == "living"
    assert names(tmp_path) == ["file"]


def test_only_names_that_were_made_here_are_cleaned_up(tmp_path):
    own = [".download.part", ".file.part", ".file.12.part", ".file.12.abcdefgh.part", ".file.12.deadbeef.part.txt"]
    for name in own:
        (tmp_path / name).write_text("mine")
    left = ".other.12.deadbeef.part"
    (tmp_path / left).write_text("of another file")
    write_file(tmp_path / "file", "new")
    assert names(tmp_path) == sorted([*own, left, "file"])
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*own, "file"])


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        rows = ([f"{word} film number {i}", word] for i in range(15) for word in ("good", "bad"))
        csv.writer(file).writerows([["text", "label"], *rows])
    return path


def test_a_training_killed_at_any_change_is_finished_by_the_next(tmp_path, reviews):
    killing.train(reviews, tmp_path / "calm")
    calm = names(tmp_path / "calm")
    folder = tmp_path / "runs" / "killed"
    for at in every_kill(killing.train, reviews, folder):
        assert not killed(killing.train, reviews, folder), at
        assert load_run(folder).metrics["scores"] == load_run(tmp_path / "calm").metrics["scores"]
        assert names(folder) == calm, f"left behind by kill {at}"
        assert names(folder.parent) == ["killed"]
        shutil.rmtree(folder)
    assert at > 20


def test_a_prediction_killed_at_any_change_leaves_the_old_file_or_the_new(tmp_path, reviews):
    killing.train(reviews, tmp_path / "run")
    place = tmp_path / "out"
    place.mkdir()
    killing.predict(tmp_path / "run", reviews, place / "out.csv")
    new = (place / "out.csv").read_bytes()
    (place / "out.csv").write_text("old")
    for at in every_kill(killing.predict, tmp_path / "run", reviews, place / "out.csv"):
        assert (place / "out.csv").read_bytes() in (b"old", new), at
        (place / "out.csv").write_text("old")
    assert (place / "out.csv").read_bytes() == new
    assert names(place) == ["out.csv"]
    assert os.stat(place / "out.csv").st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
