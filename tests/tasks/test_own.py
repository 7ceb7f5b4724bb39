"""A person's own files: columns guessed and said aloud, splits made for them, errors that teach."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.tasks import load_task, normalise

Write = Callable[..., Path]
FOUR = "good film,1\nbad film,0\nfine film,1\npoor film,0\n"


def test_one_file_is_split_and_said_aloud(reviews: Path) -> None:
    task = load_task(reviews)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 80, "dev": 10, "test": 10}
    assert task.labels == ("0", "1")
    assert all((split.labels == 0).sum() == len(split) / 2 for split in task.splits.values())
    assert "reading the text from 'text' and the label from 'label'" in task.notes[0]
    assert any("was split" in sentence for sentence in task.notes)


def test_the_same_file_and_seed_give_the_same_task(reviews: Path) -> None:
    one, same, other = (load_task(reviews, seed=seed).fingerprint("test") for seed in (3, 3, 4))
    assert one == same != other


def test_every_format_gives_the_same_task(reviews: Path, tmp_path: Path) -> None:
    rows = [{"text": f"film number {n} was, well, {'good' if n % 2 else 'bad'}", "label": n % 2} for n in range(100)]
    files = {
        "it.tsv": "text\tlabel\n" + "".join(f"{row['text']}\t{row['label']}\n" for row in rows),
        "it.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "bars.txt": "".join(f"{row['label']} ||| {row['text']}\n" for row in rows),
        "words.txt": "".join(f"{row['label']} {row['text']}\n" for row in rows),
    }
    wanted = [load_task(reviews).fingerprint(name) for name in ("train", "dev", "test")]
    for name, content in files.items():
        for packed in (False, True):
            path = tmp_path / (name + ".gz" * packed)
            path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
            assert [load_task(path).fingerprint(split) for split in ("train", "dev", "test")] == wanted, path.name
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "it.parquet")
    assert [load_task(tmp_path / "it.parquet").fingerprint(split) for split in ("train", "dev", "test")] == wanted


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.sampled_from("abcdefghijklmnop"), min_size=30, max_size=80), seed=st.integers(0, 3))
def test_repeats_never_cross_splits(tmp_path: Path, texts: list[str], seed: int) -> None:
    lines = [
        f"{text} {'!' * (row % 3)},{ord(text) % 2}" for row, text in enumerate("abcdefghijklmnop" + "".join(texts))
    ]
    path = tmp_path / "it.csv"
    path.write_text("text,label\n" + "\n".join(lines))
    task = load_task(path, seed=seed)
    parts = [{normalise(text) for text in split.texts} for split in task.splits.values()]
    assert all(not (one & other) for i, one in enumerate(parts) for other in parts[i + 1 :])


def test_a_folder_gives_its_splits_and_a_missing_dev_is_cut(write: Write) -> None:
    write("set/train.csv", "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(50)))
    path = write("set/test.csv", "text,label\nx,a\ny,b\n").parent
    write("set/NOTES.md", "nothing")
    task = load_task(path)
    assert {name: len(split) for name, split in task.splits.items()} == {"train": 44, "dev": 6, "test": 2}
    assert any("no dev split" in sentence for sentence in task.notes)
    write("set/valid.csv", "text,label\nz,a\nw,b\n")
    assert len(load_task(str(path)).dev) == 2


def test_three_files_are_train_dev_and_test(write: Write) -> None:
    paths = [write(f"{name}.csv", f"text,label\n{name} x,a\n{name} y,b\n") for name in ("one", "two", "three")]
    for given_as in (paths, [str(path) for path in paths], ",".join(map(str, paths))):
        assert [split.texts[0] for split in load_task(given_as).splits.values()] == [
            "one x",
            "two x",
            "three x",
        ]


def test_columns_can_be_named_and_one_text_of_a_pair_is_said(write: Write) -> None:
    path = write("it.csv", "premise,hypothesis,label\n" + "".join(f"p {n},h {n},{'yn'[n % 2]}\n" for n in range(40)))
    single = load_task(path, text="premise")
    assert not single.pair
    assert any("only 'premise' is read" in sentence and "--text2 hypothesis" in sentence for sentence in single.notes)
    pairs = load_task(path, text="premise", text2="hypothesis")
    assert pairs.pair
    assert all(one[1:] == two[1:] for one, two in zip(pairs.train.texts, pairs.train.second_texts, strict=True))


def test_columns_are_guessed_by_content_when_names_do_not_tell(write: Write) -> None:
    lines = "".join(f"{n},some words here {n},{['ham', 'spam'][n % 2]}\n" for n in range(30))
    task = load_task(write("it.csv", "id,what was said,kind\n" + lines))
    assert task.labels == ("ham", "spam")
    assert task.train.texts[0].startswith("some words")
    assert "not read: 'id'" in task.notes[0]


def test_numeric_labels_are_sorted_as_numbers_and_others_as_words(write: Write) -> None:
    stars = "".join(f"text {n},{n % 11}\n" for n in range(110))
    assert load_task(write("it.csv", "text,label\n" + stars)).labels == tuple(map(str, range(11)))
    assert load_task(write("b.csv", "text,label\na,pos\nb,neg\nc,pos\nd,neg\ne,pos\nf,neg\n")).labels == (
        "neg",
        "pos",
    )


def test_label_names_in_parquet_are_kept(tmp_path: Path) -> None:
    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}
    meta = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": [f"t {n}" for n in range(40)], "label": [n % 2 for n in range(40)]})
    pq.write_table(table.replace_schema_metadata(meta), tmp_path / "it.parquet")
    assert load_task(tmp_path / "it.parquet").labels == ("no", "yes")


def test_rows_without_a_label_are_left_out_and_said(write: Write) -> None:
    rows = "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40))
    task = load_task(write("it.csv", f"text,label\n{rows}no label,\nwithheld,-1\n"))
    assert sum(map(len, task.splits.values())) == 40
    assert any("2 of 42 rows have no label" in sentence and "row 41" in sentence for sentence in task.notes)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("text,label\nx,0\ny,0\nz,0\n", "all 3 labels are 0 while train has 2 classes: placeholders"),
        ("text,label\nx,-1\ny,-1\n", "all 2 labels are empty or −1"),
        ("text,label\nx,\ny,\n", "all 2 labels are empty or −1"),
        ("text\nx\ny\n", "third.csv has no label column"),
    ],
)
def test_a_test_split_without_real_labels_is_never_scored(write: Write, test: str, says: str) -> None:
    paths = [write("first.csv", "text,label\n" + FOUR), write("second.csv", "text,label\nh,1\ni,0\n")]
    task = load_task([*paths, write("third.csv", test)])
    assert not task.test.labelled
    assert says in task.test.reason
    with pytest.raises(UserError) as raised:
        task.scored("test")
    assert says in str(raised.value)
    assert "splits that can be scored: dev" in str(raised.value)


def test_the_person_may_insist_that_labels_are_real(write: Write) -> None:
    paths = [write("a.csv", "text,label\n" + FOUR), write("b.csv", "text,label\nh,1\ni,0\n")]
    paths.append(write("c.csv", "text,label\nx,0\ny,0\n"))
    assert load_task(paths, labels_are_real=True).scored("test").labels.tolist() == [0, 0]
    signs = write("signs.csv", "text,label\n" + "".join(f"t {n},{(-1) ** n}\n" for n in range(20)))
    assert load_task(signs, labels_are_real=True).labels == ("-1", "1")
    with pytest.raises(UserError, match="if −1 is a class, say --labels-are-real"):
        load_task(signs)


@pytest.mark.parametrize(
    ("content", "names", "says"),
    [
        ("text,label\n" + FOUR, {"label": "lable"}, "--label column 'lable' not in"),
        ("text,label\n" + FOUR, {"label": "lable"}, "it has: 'text', 'label'"),
        ("text,label\n" + FOUR, {"text2": "second"}, "--text2 column 'second' not in"),
        ("text,label\n" + FOUR, {"text": "label", "label": "label"}, "named twice"),
        ("text,label\na,1\nb,1\n", {}, "one class only (1)"),
        ("text,label\na,\nb,-1\n", {}, "has no labels"),
        ("text,label\n", {}, "no rows below the header"),
        ("", {}, "empty"),
        ("text,label\na,1\nb\n", {}, "row 2 (line 3) has 1 fields"),
        ("text\na\nb\n", {}, "cannot tell which column is the label"),
        ("good film,1\nbad film,0\n", {}, "put a header above it"),
        ("text,text2,label\na,b,1\nc,,0\n", {"text2": "text2"}, "row 2 (line 3) has no second text"),
        ("text,label\na,1\nb,0\n", {}, "too few rows to make a dev split"),
    ],
)
def test_a_mistake_in_a_csv_is_named(write: Write, content: str, names: dict[str, str], says: str) -> None:
    with pytest.raises(UserError) as raised:
        load_task(write("it.csv", content), **names)
    assert says in str(raised.value)
    assert "it.csv" in str(raised.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"label": 1}', "row 2 has no text: the field 'text' is missing"),
        ('{"text": null, "label": 1}', "row 2 has no text"),
        ('{"text": "b"}', "row 2 has no field 'label'"),
        ('{"text": ["b"], "label": 1}', "row 2: the field 'text' is a list"),
        ('{"text": "b", "label": [1]}', "row 2: the label is a list"),
    ],
)
def test_a_json_row_with_a_missing_field_is_named(write: Write, line: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        load_task(write("it.jsonl", f'{{"text": "a", "label": 0}}\n{line}\n'))
    assert says in str(raised.value)


def test_a_label_that_train_does_not_have_is_named_with_its_row(write: Write) -> None:
    paths = [write("a.csv", "text,label\n" + FOUR), write("b.csv", "text,label\nh,1\ni,0\n")]
    with pytest.raises(UserError) as raised:
        load_task([*paths, write("c.csv", "text,label\nh,1\nk,\ni,2\n")])
    assert "c.csv: row 3 has the label '2', which train does not have; train has: 0, 1" in str(raised.value)


def test_splits_that_are_missing_or_doubled_are_named(write: Write) -> None:
    path = write("set/test.csv", "text,label\n" + FOUR)
    with pytest.raises(UserError, match=r"the train split is missing.*it has: test.csv"):
        load_task(path.parent)
    write("set/train.csv", "text,label\n" + FOUR)
    write("set/train.tsv", "text\tlabel\na\t1\n")
    with pytest.raises(UserError, match=r"both train.csv and train.tsv look like train"):
        load_task(path.parent)
    with pytest.raises(UserError, match=r"both .*test.csv and .*test.csv look like test"):
        load_task([path, path])
    with pytest.raises(UserError, match="4 files were given"):
        load_task([path] * 4)


def test_names_of_files_say_which_split_they_are_whatever_their_order(write: Write) -> None:
    paths = {
        name: write(f"{name}.csv", "text,label\n" + "".join(f"{name} {n},{'ab'[n % 2]}\n" for n in range(20)))
        for name in ("train", "valid", "test")
    }
    task = load_task([paths["train"], paths["test"], paths["valid"]])
    assert [split.texts[0] for split in task.splits.values()] == ["train 0", "valid 0", "test 0"]
    assert any("train.csv is train, valid.csv is dev, test.csv is test" in sentence for sentence in task.notes)
    other = write("other.csv", "text,label\n" + "o x,a\no y,b\n" * 10)
    plain = load_task([other, paths["train"]])  # only one name tells: the other file is the other split
    assert plain.train.texts[0].startswith("train ")
    assert len(plain.test) == 20


def test_pairs_in_train_and_single_texts_in_test_do_not_mix(write: Write) -> None:
    pairs = "text,text2,label\na,b,1\nc,d,0\ne,f,1\ng,h,0\n"
    paths = [write("a.csv", pairs), write("b.csv", pairs), write("c.csv", "text,label\na,1\nb,0\n")]
    with pytest.raises(UserError, match=r"--text2 column 'text2' not in .*c.csv"):
        load_task(paths, text="text", text2="text2")


def test_an_unknown_name_lists_the_built_in_tasks() -> None:
    with pytest.raises(UserError, match=r"sst3: no such file, folder or built-in task; did you mean sst\d\?.*movies"):
        load_task("sst3")
    with pytest.raises(UserError, match="rte is a built-in task"):
        load_task("rte", text="sentence1")
