"""Old checkpoints: tensors come in, code never runs."""

import json
import os
import pickle
import subprocess
import sys

import pytest
import torch
from conftest import VOCABULARY, hugging_face_bert

from pocketbert.catalog import import_model, load_encoder, load_pretraining, load_tokenizer
from pocketbert.errors import UserError


@pytest.fixture
def old(tmp_path):
    """A folder as many small BERTs are: config, vocabulary, pytorch_model.bin with tied weights sharing memory."""
    target = tmp_path / "bert-old"
    model = hugging_face_bert("BertForPreTraining")
    target.mkdir()
    (target / "config.json").write_text(json.dumps(model.config.to_dict()))
    (target / "vocab.txt").write_text("\n".join(VOCABULARY))
    torch.save(model.state_dict(), target / "pytorch_model.bin")
    return target


def test_an_import_gives_the_same_weights_and_its_name_works_afterwards(old):
    target = import_model(str(old), allow_pickle=True)
    expected = torch.load(old / "pytorch_model.bin", weights_only=True)
    assert torch.equal(load_encoder("bert-old", quiet=True).pooler.weight, expected["bert.pooler.dense.weight"])
    assert torch.equal(load_pretraining(target, quiet=True).words.bias, expected["cls.predictions.bias"])
    assert len(load_tokenizer("bert-old")) == len(VOCABULARY)


def test_without_the_flag_nothing_is_read(old):
    with pytest.raises(UserError, match="--allow-pickle"):
        import_model(str(old))


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_a_malicious_pickle_is_refused_and_nothing_runs(old, tmp_path, writer):
    mark = tmp_path / "it-ran"
    content = {"bert.pooler.dense.weight": torch.zeros(2), "bomb": Bomb(mark)}
    if writer == "torch":
        torch.save(content, old / "pytorch_model.bin")
    else:
        (old / "pytorch_model.bin").write_bytes(pickle.dumps(content))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pocketbert",
            "models",
            "import",
            str(old),
            "--allow-pickle",
            "--out",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "pytorch_model.bin: refused" in done.stderr
    assert not mark.exists(), "the pickle ran code"
    assert not (tmp_path / "out").exists()
    # The same bytes do run where they are trusted: the test can fail.
    pickle.loads((old / "pytorch_model.bin").read_bytes()) if writer == "pickle" else torch.load(
        old / "pytorch_model.bin", weights_only=False
    )
    assert mark.exists()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: (f / "pytorch_model.bin").write_bytes(b"no pickle"), "refused"),
        (lambda f: torch.save([1, 2], f / "pytorch_model.bin"), "no plain table"),
        (lambda f: torch.save({"a": torch.zeros(1)}, f / "pytorch_model.bin"), "missing"),
        (lambda f: torch.save({"a": torch.zeros(3).to_sparse()}, f / "pytorch_model.bin"), "'a' is no plain array"),
        (lambda f: torch.save({"a": torch.zeros(3, dtype=torch.cfloat)}, f / "pytorch_model.bin"), "torch.complex64"),
        (lambda f: torch.save({"a": torch.zeros(3, device="meta")}, f / "pytorch_model.bin"), "strided, meta"),
        (lambda f: torch.save({"a": torch.zeros(2).expand(9, 2)}, f / "pytorch_model.bin"), "'a' is 72 bytes.*only 8"),
        (lambda f: torch.save({"a": {"b": torch.zeros(1)}}, f / "pytorch_model.bin"), "no plain table"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "'model.type' is None"),
        (lambda f: (f / "pytorch_model.bin").unlink(), "nothing to import"),
        (lambda f: (f / "config.json").unlink(), "config.json: no such file"),
    ],
)
def test_a_bad_import_says_why_and_leaves_nothing(old, tmp_path, spoil, says):
    spoil(old)
    with pytest.raises(UserError, match=says) as caught:
        import_model(str(old), tmp_path / "out", allow_pickle=True)
    assert str(old) in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_nothing_else_in_the_package_unpickles():
    from conftest import REPOSITORY

    guilty = [
        path.name
        for path in (REPOSITORY / "src").rglob("*.py")
        if any(word in path.read_text() for word in ("torch.load(", "pickle.load", "torch.save(", "joblib"))
    ]
    assert guilty == ["unpickle.py"]
