"""What is exported is the run: equal probabilities where others open it, by the lines that its own README gives."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

from pocketbert.errors import UserError
from pocketbert.export import export_run
from pocketbert.export_readme import AUTO_MODEL, CLASSIFIER, CLS, MEAN, ONNX
from pocketbert.start import weights_fingerprint
from pocketbert.tasks import Split, Task
from pocketbert.train import train_run

PAGE = (REPOSITORY / "docs" / "export.md").read_text(encoding="utf-8")
WORDS = {"bad": ["dull", "cold", "slow"], "good": ["warm", "funny", "honest"]}
TEXTS = [f"a {word} film about number {n}" for n in range(8) for label in WORDS for word in WORDS[label]]
LABELS = np.array([label == "good" for n in range(8) for label in WORDS for _ in WORDS[label]], dtype=np.int64)
ODD = ["", "good", "¡qué película! 映画 😀", "a funny film " * 100, *TEXTS[:5], "[SEP] [CLS] ##ing"]
QUICK = {"epochs": 1, "batch_size": 32, "learning_rate": 1e-2, "threads": 1, "max_length": 24}
TRAINED = {  # name: (method, pooling, head, what opens it)
    "frozen": ("frozen", None, "linear", "AutoModel"),
    "finetune": ("finetune", None, "linear", "AutoModel"),
    "two layers": ("finetune", "mean", "two-layer", "AutoModel"),
    "pooler": ("finetune", "pooler", "linear", "BertForSequenceClassification"),
    "cls, two layers": ("finetune", "cls", "two-layer", "BertForSequenceClassification"),
    "cls": ("bitfit", "cls", "linear", "AutoModel"),
    "pooler, two layers": ("finetune", "pooler", "two-layer", "AutoModel"),
}


def make_task(pairs: bool) -> Task:
    split = Split(TEXTS, [f"it is day {n}" for n in range(len(TEXTS))] if pairs else None, LABELS)
    return Task("films", ("bad", "good"), {"train": split, "dev": split}, pair=pairs)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A real run of pocket-tiny by name, trained when first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def get(name: str, pairs: bool = False):
        if (name, pairs) not in made:
            method, pooling, head, _ = TRAINED[name]
            told = {**QUICK, "head": head} | ({} if pooling is None else {"pooling": pooling})
            where = folder / f"{name}{' pairs' if pairs else ''}"
            made[name, pairs] = train_run(make_task(pairs), method, where, model="pocket-tiny", settings=told)
        return made[name, pairs]

    return get


def probabilities_by_its_readme(folder, texts, second_texts=None):
    """Run the lines in an exported folder's README.md, changed for pairs as they say."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert '"exported"' in block
    if second_texts is not None:
        block = block.replace("tokenizer(texts,", "tokenizer(texts, second_texts,")
        block = block.replace("encode_batch(texts)", "encode_batch(list(zip(texts, second_texts)))")
    names = {"texts": texts, "second_texts": second_texts}
    exec(block.replace('"exported"', repr(str(folder))), names)
    return np.asarray(names["probabilities"]), names["labels"]


@pytest.mark.parametrize("name", TRAINED)
def test_transformers_gives_the_runs_own_probabilities(runs, tmp_path, name):
    run = runs(name)
    exported = export_run(run, tmp_path / "out")
    assert exported.opens_with == TRAINED[name][-1]
    expected = run.fitted().probabilities(ODD)
    got, labels = probabilities_by_its_readme(tmp_path / "out", ODD)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert labels == [run.labels[best] for best in expected.argmax(axis=1)]


@pytest.mark.parametrize(
    ("name", "format"), [("finetune", "transformers"), ("pooler", "transformers"), ("finetune", "onnx")]
)
def test_pairs_are_exported_too(runs, tmp_path, name, format):
    run = runs(name, pairs=True)
    export_run(run, tmp_path / "out", format=format)
    seconds = [f"it is day {n}" * (1 + 20 * (n == 3)) for n in range(len(ODD))]
    got, _ = probabilities_by_its_readme(tmp_path / "out", ODD, seconds)
    np.testing.assert_allclose(got, run.fitted().probabilities(ODD, seconds), atol=1e-5)


@pytest.mark.parametrize("name", ["frozen", "cls, two layers", pytest.param("pooler", marks=pytest.mark.slow)])
def test_onnx_gives_the_runs_own_probabilities_for_any_batch_and_length(runs, tmp_path, name):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    run = runs(name)
    assert export_run(run, tmp_path / "out", format="onnx").opens_with == "onnxruntime"
    model = onnx.load(tmp_path / "out" / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    shapes = {
        one.name: [axis.dim_param or axis.dim_value for axis in one.type.tensor_type.shape.dim]
        for one in (*model.graph.input, *model.graph.output)
    }
    free = {key: ["batch", "length"] for key in ("input_ids", "attention_mask", "token_type_ids")}
    assert shapes == {**free, "logits": ["batch", 2], "probabilities": ["batch", 2]}
    fitted = run.fitted()
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    for texts in ([""], ["good"], ODD[3:4], ODD[:2], ODD, TEXTS):
        expected = fitted.probabilities(texts)
        got, labels = probabilities_by_its_readme(tmp_path / "out", texts)
        np.testing.assert_allclose(got, expected, atol=1e-4)
        assert labels == [run.labels[best] for best in expected.argmax(axis=1)]
        batch = {name: tensor.numpy() for name, tensor in fitted.tokenizer(texts, max_length=24).tensors().items()}
        batch.setdefault("token_type_ids", np.zeros_like(batch["input_ids"]))
        wider = {name: np.pad(ids, ((0, 0), (0, 9))) for name, ids in batch.items()}
        logits, padded = session.run(["logits", "probabilities"], wider)
        np.testing.assert_allclose(padded, expected, atol=1e-4)
        np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), padded, atol=1e-6)


@pytest.mark.slow
def test_an_onnx_file_is_the_same_by_command_and_tells_nothing_of_the_machine_it_was_made_on(runs, tmp_path):
    run = runs("finetune")
    export_run(run, tmp_path / "own", format="onnx")
    arguments = ["export", str(run.folder), str(tmp_path / "out"), "--format", "onnx", "--json"]
    done = subprocess.run([sys.executable, "-m", "pocketbert", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "torch's exporter has much to say that nobody can mend"
    expected = {"folder": str(tmp_path / "out"), "format": "onnx", "opens_with": "onnxruntime"}
    assert json.loads(done.stdout) == expected
    own, out = ((tmp_path / name / "model.onnx").read_bytes() for name in ("own", "out"))
    assert own == out
    assert b".py" not in own
    assert str(REPOSITORY).encode() not in own
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "own").iterdir()} == {oct(0o666 & ~umask())}


def test_what_was_exported_is_a_model_to_start_from(runs, tmp_path):
    from pocketbert.loading import load_model

    export_run(runs("finetune"), tmp_path / "out")
    start = load_model(tmp_path / "out")
    assert start.pooling == "mean"
    assert weights_fingerprint(start.encoder()) == weights_fingerprint(runs("finetune").fitted().network.encoder)


def umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_can_be_read_by_those_whom_the_umask_lets(runs, tmp_path, mask):
    run, before = runs("finetune"), os.umask(mask)
    try:
        export_run(run, tmp_path / "out")
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 4
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {oct(0o666 & ~mask)}


def test_what_cannot_be_exported_is_said_in_a_sentence(tmp_path):
    words = train_run(make_task(False), "tfidf", tmp_path / "words")
    states = train_run(
        make_task(False), "finetune", tmp_path / "states", model="pocket-tiny", settings={**QUICK, "head": "bilstm"}
    )
    for format in ("transformers", "onnx"):
        with pytest.raises(UserError, match="words: method 'tfidf' is no BERT: there is nothing that"):
            export_run(words, tmp_path / "out", format=format)
        with pytest.raises(UserError, match="a bilstm head cannot be exported .*--head linear or --head two-layer"):
            export_run(states, tmp_path / "out", format=format)
    with pytest.raises(UserError, match="format 'pickle' is not known; known are transformers, onnx"):
        export_run(words, tmp_path / "out", format="pickle")
    assert not (tmp_path / "out").exists()


def test_train_says_before_it_begins_what_cannot_be_exported(tmp_path, capsys):
    from pocketbert.cli import app

    file = tmp_path / "films.csv"
    file.write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in zip(TEXTS, LABELS, strict=True)))
    for head in ("bilstm", "linear"):
        flags = ["--head", head, "--epochs", "1", "--model", "pocket-tiny", "--threads", "1"]
        app(["train", str(file), *flags, "--out", str(tmp_path / head)], standalone_mode=False)
        said = capsys.readouterr().err
        assert said.count("cannot be exported") == (head == "bilstm")
        if head == "bilstm":
            assert said.index("cannot be exported") < said.index("epoch 1")


def test_without_the_onnx_packages_it_says_what_to_install(runs, tmp_path, monkeypatch):
    run = runs("finetune")
    monkeypatch.setattr("pocketbert.export_onnx.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(UserError, match="^--format onnx needs onnxscript: pip install onnx onnxscript onnxruntime$"):
        export_run(run, tmp_path / "out", format="onnx")
    assert not (tmp_path / "out").exists()


def test_the_onnx_packages_are_imported_by_nobody_who_does_not_ask_for_them(runs, tmp_path):
    program = (
        "import sys, pocketbert as pb; pb.export_run(pb.load_run(sys.argv[1]), sys.argv[2]);"
        "print([name for name in ('onnx', 'onnxscript', 'onnxruntime') if name in sys.modules])"
    )
    arguments = [str(runs("finetune").folder), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_about_export_has_the_lines_that_exported_folders_have():
    """Those are run above."""
    mean, onnx = AUTO_MODEL.replace("POOLED", MEAN), ONNX.replace("MAX_LENGTH", "128")
    for block in (CLASSIFIER, mean, onnx):
        assert f"```python\n{block}```" in PAGE
    assert f"`vector = {CLS}`" in PAGE
