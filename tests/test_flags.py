"""Absurd values of flags are one line that names the flag's setting and its bounds; none of them is a signal."""

import pytest
from test_cli import run

TABLE = "text,label\n" + "".join(f"a good film {i},yes\nthe bad film {i},no\n" for i in range(20))


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--threads", "100000", "threads: 100000 is not a whole number from 1 to 1,024"),
        ("--threads", "0", "threads: 0"),
        ("--threads", "-1", "threads: -1"),
        ("--epochs", str(10**20), "epochs: 100000000000000000000 is not a whole number from 1 to 100,000"),
        ("--batch-size", str(10**18), "batch_size"),
        ("--max-length", str(10**9), "max_length"),
        ("--learning-rate", "nan", "learning_rate"),
        ("--learning-rate", "1e400", "learning_rate"),
        ("--learning-rate", ",", "--learning-rate ,: expected a number"),
        ("--learning-rate", "", "--learning-rate : expected a number"),
        ("--seed", str(2**70), "seed"),
        ("--dropout", "nan", "dropout: nan is not a number of at least 0 and below 0.99"),
        ("--warmup", "5", "warmup"),
        ("--vocabulary-size", str(10**12), "vocabulary_size"),
        ("--device", "cuda:x", "device: 'cuda:x' is not known"),
    ],
)
def test_an_absurd_setting_is_one_line(tmp_path, flag, value, says):
    (tmp_path / "data.csv").write_text(TABLE)
    done = run("train", tmp_path / "data.csv", "--method", "scratch", "--out", tmp_path / "run", flag, value)
    assert done.returncode == 2, done
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", str(10**12)], "seeds: 1000000000000 is not a whole number from 1 to 10,000"),
        (["--rows", "-1"], "rows: -1 is not a whole number from 2 to"),
        (["--models", ",,,"], "--models ',,,': names none"),
        (["--methods", " , "], "--methods ' , ': names none"),
        (["--workers", "9" * 5_000], "is neither a number of at least 1 nor ray"),
        (["--workers", ""], "workers: '' is neither"),
    ],
)
def test_an_absurd_study_is_one_line(tmp_path, arguments, says):
    (tmp_path / "data.csv").write_text(TABLE)
    done = run("study", tmp_path / "data.csv", "--dry-run", *arguments)
    assert done.returncode == 2, done
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_hundred_thousand_threads_are_refused_when_predicting_too(tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    made = run("train", tmp_path / "data.csv", "--method", "majority", "--out", tmp_path / "run")
    assert made.returncode == 0, made.stderr
    done = run("predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "o.csv", "--threads", "100000")
    assert done.returncode == 2, done
    assert "threads: 100000 is not a whole number from 1 to 1,024" in done.stderr
    assert not (tmp_path / "o.csv").exists()
