"""Small files that ask for the world: `models show` and `models import` refuse them on one line, in bounded memory."""

import json
import math
import os
import pickle
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import VOCABULARY
from limits import limited

from pocketbert import unpickle
from pocketbert.checkpoints import hugging_face_tensors, save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.tokenizer import Tokenizer

MOST_MEMORY = 1_000_000_000
SMALL = Config(vocabulary=len(VOCABULARY), width=8, layers=1, heads=2, inner=16, positions=16)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A model folder with every file, and its weights as a pickle too."""
    folder = tmp_path_factory.mktemp("good") / "model"
    encoder = Encoder(SMALL, seed=0)
    save_model(encoder, folder, Tokenizer.from_tokens(VOCABULARY))
    torch.save(hugging_face_tensors(encoder), folder / "pytorch_model.bin")
    return folder


@pytest.fixture
def model(good, tmp_path):
    """A copy of it to spoil."""
    return Path(shutil.copytree(good, tmp_path / "model"))


def one_document(ended):
    """What every command owes, whatever it was given: an answer or a refusal, as one document, in bounded memory."""
    assert ended.code == 0 or ended.refused(), (ended.code, ended.timed_out, ended.err[-2_000:])
    assert ended.peak < MOST_MEMORY
    assert ("error" in ended.document) == (ended.code == 2)
    assert len(ended.err.strip().splitlines()) <= (1 if ended.code else 0), ended.err
    return ended.document


# -- models show -----------------------------------------------------------------------------------------------------


def edit(name, **fields):
    def spoil(folder):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **fields}))

    return spoil


def tokenizer_model(**fields):
    def spoil(folder):
        content = json.loads((folder / "tokenizer.json").read_text())
        content["model"].update(fields)
        (folder / "tokenizer.json").write_text(json.dumps(content))

    return spoil


def config_text(text):
    """Numbers that Python would not write: put in by hand."""

    def spoil(folder):
        content = json.loads((folder / "config.json").read_text())
        content["layer_norm_eps"] = "HERE"
        (folder / "config.json").write_text(json.dumps(content).replace('"HERE"', text))

    return spoil


def only_vocabulary(write):
    def spoil(folder):
        (folder / "tokenizer.json").unlink()
        write(folder / "vocab.txt")

    return spoil


def of_size(path, size):
    """A file of this size that takes no room on the disk."""
    with open(path, "wb") as file:
        file.truncate(size)


def header(content, size=None):
    """A safetensors file with this header and no numbers; `size` is what it says of the header's length."""

    def spoil(folder):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text) if size is None else size) + text)

    return spoil


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def shards(names):
    def spoil(folder):
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))

    return spoil


def in_place_of(name, make):
    def spoil(folder):
        (folder / name).unlink()
        make(folder / name)

    return spoil


def device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # as /dev/zero
    except PermissionError:
        pytest.skip("only root may make a device")


def added_token(content, row):
    return {"id": row, "content": content, "special": True}


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 99}
FIXED = {"direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
CHAIN = {"type": "Sequence", "normalizers": [REPLACE] * 8}
SPLIT = {"type": "Split", "pattern": {"Regex": "(((("}, "behavior": "Isolated", "invert": False}
TEMPLATE = {"type": "TemplateProcessing", "single": [], "special_tokens": {}}
MANY_IDS = {"[CLS]": {"id": "[CLS]", "ids": [2] * 1_000_000, "tokens": ["[CLS]"] * 1_000_000}}
NOWHERE = [{"SpecialToken": {"id": "[NOWHERE]", "type_id": 0}}]

# What is in the folder → what the refusal says; None: the model is shown, and nothing grew.
SHOWN = {
    "a chain of Replace": (edit("tokenizer.json", normalizer=CHAIN), "'normalizer' asks for 'Replace'"),
    "a bad regular expression": (edit("tokenizer.json", pre_tokenizer=SPLIT), "'pre_tokenizer' asks for 'Split'"),
    "padding to a billion": (edit("tokenizer.json", padding={"strategy": {"Fixed": 10**9}, **FIXED}), None),
    "a special token of a million ids": (
        edit("tokenizer.json", post_processor={**TEMPLATE, "pair": NOWHERE, "special_tokens": MANY_IDS}),
        "'post_processor' does not put texts",
    ),
    "a layout with a token that is nowhere": (
        edit("tokenizer.json", post_processor={**TEMPLATE, "pair": NOWHERE}),
        "'post_processor' does not put texts",
    ),
    "words of any length": (tokenizer_model(max_input_chars_per_word=10**9), "max_input_chars_per_word"),
    "a prefix of a megabyte": (tokenizer_model(continuing_subword_prefix="#" * 10**6), "continuing_subword_prefix"),
    "an id of 10**12": (
        tokenizer_model(vocab={**{token: row for row, token in enumerate(VOCABULARY)}, "far": 10**12}),
        "ids are not 0 to 23",
    ),
    "an added token of ten megabytes": (
        edit("tokenizer.json", added_tokens=[added_token("ab" * 5_000_000, len(VOCABULARY))]),
        "has 10,000,000 characters",
    ),
    "a hundred thousand added tokens": (
        edit("tokenizer.json", added_tokens=[added_token(f"x{n}", len(VOCABULARY) + n) for n in range(100_000)]),
        "at most 10,000 tokens",
    ),
    "five million empty objects": (
        lambda f: (f / "tokenizer.json").write_text('{"model":[' + "{}," * 5_300_000 + "0]}"),
        "'model.type' is None",
    ),
    "a tokenizer of two gigabytes": (lambda f: of_size(f / "tokenizer.json", 2 * 10**9), "2,000,000,000 bytes"),
    "a vocabulary of a gigabyte": (only_vocabulary(lambda path: of_size(path, 10**9)), "1,000,000,000 bytes"),
    "a vocabulary of two million words": (
        only_vocabulary(lambda path: path.write_text("\n".join(f"{n:x}" for n in range(2_000_000)))),
        "more than 1,000,000 lines",
    ),
    "a vocabulary that is one line": (
        only_vocabulary(lambda path: path.write_bytes(b"a" * 15_000_000)),
        "has 15,000,000 characters",
    ),
    "a number of four hundred digits": (config_text("1" + "0" * 400), "'layer_norm_eps'.*outside 0 to 1"),
    "a model type of half a megabyte": (edit("config.json", model_type="b" * 500_000), "'model_type' is 'bbb"),
    "a header of 2**63 bytes": (header(b"{}", size=2**63), "not a whole safetensors file"),
    "a header of fifty megabytes": (header(b" " * 50_000_000), "a header of 50,000,000 bytes"),
    "seventy thousand tensors": (
        header({f"x{n}": tensor([0], 0, 0) for n in range(70_000)}),
        "more than 20,000 tensors",
    ),
    "more numbers than a number can count": (
        header({"x": tensor([2**62, 2**62], 0, 4)}),
        "not a whole safetensors file",
    ),
    "ten thousand shards": (
        shards({f"x{n}": f"model-{n}.safetensors" for n in range(10_000)}),
        "'model-0.safetensors', which is not in",
    ),
    "a device as the vocabulary": (only_vocabulary(lambda path: (path.unlink(), device(path))), "a device, not a file"),
    "a pipe as the weights": (in_place_of("model.safetensors", os.mkfifo), "a pipe, not a file"),
    "a pipe as the config": (in_place_of("config.json", os.mkfifo), "a pipe, not a file"),
    "a link to itself": (in_place_of("tokenizer.json", lambda path: path.symlink_to(path)), "cannot read"),
}


def some(names):
    """Each takes seconds: every third in the ordinary suite, the others with the slow tests."""
    return [pytest.param(name, marks=[pytest.mark.slow] if n % 3 else []) for n, name in enumerate(names)]


@pytest.mark.parametrize("what", some(SHOWN))
def test_a_hostile_folder_is_refused_on_one_line_in_bounded_memory(what, model, tmp_path):
    spoil, says = SHOWN[what]
    spoil(model)
    document = one_document(limited("models", "show", model, "--json", home=tmp_path))
    if says is None:
        assert document["layers"] == 1
    else:
        assert re.search(says, document["error"]), document["error"]
        assert len(document["error"]) < 500 + len(str(tmp_path))


def test_a_model_larger_than_the_memory_is_refused_on_one_line(tmp_path):
    """Four gigabytes of zeros that take no room on the disk: honest about their size, so only the reading can tell."""
    folder = tmp_path / "model"
    save_model(Encoder(replace(SMALL, width=256), seed=0), folder)
    edit("config.json", vocab_size=4_000_000)(folder)
    path = folder / "model.safetensors"
    length = int.from_bytes(path.read_bytes()[:8], "little")
    content = json.loads(path.read_bytes()[8 : 8 + length])
    end = 0
    for name, found in content.items():
        if name != "__metadata__":
            found["shape"] = [4_000_000, 256] if name == "embeddings.word_embeddings.weight" else found["shape"]
            begin, end = end, end + 4 * math.prod(found["shape"])
            found["data_offsets"] = [begin, end]
    header(content)(folder)
    os.truncate(path, path.stat().st_size + end)
    ended = limited("models", "show", folder, "--json", home=tmp_path)
    assert ended.refused(), ended.err
    assert "model.safetensors: not enough memory to read" in ended.document["error"]


# -- models import ---------------------------------------------------------------------------------------------------


def saved(content):
    return lambda path: torch.save(content, path)


def packed(operations, *, entries=()):
    """A file as torch writes it, whose pickle is these operations."""

    def write(path):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("archive/data.pkl", b"\x80\x02" + operations + b".")
            file.writestr("archive/version", "3\n")
            for name in entries:
                file.writestr(name, b"")

    return write


def deflated(path):
    """Six hundred megabytes of zeros in a compressed file: torch writes none, but reads them."""
    torch.save({"x": torch.zeros(150_000_000)}, path.with_name("whole"))
    with (
        zipfile.ZipFile(path.with_name("whole")) as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as small,
    ):
        for name in whole.namelist():
            small.writestr(name, whole.read(name))
    path.with_name("whole").unlink()


def old_format_that_claims(path):
    """The format before zip says how many numbers follow: here a billion, and a thousand do."""
    torch.save({"x": torch.zeros(1_000)}, path, _use_new_zipfile_serialization=False)
    thousand, billion = b"M" + struct.pack("<H", 1_000), b"J" + struct.pack("<i", 10**9)
    path.write_bytes(path.read_bytes().replace(thousand, billion))


# A table whose key is a tuple of two tuples of two tuples …: its hash never ends, and lets no other thread run.
NESTED = b"})q\x00" + b"".join(b"h%c\x86q%c" % (n, n + 1) for n in range(60)) + b"K\x01s"


class Reserve:
    def __reduce__(self):
        return bytearray, (2 * 10**9,)


PICKLES = {
    "one number as two gigabytes": (
        saved({"pooler.dense.bias": torch.zeros(1).expand(500_000_000)}),
        "'pooler.dense.bias' is 2,000,000,000 bytes, but only 4 are stored",
    ),
    "ten thousand names for one tensor": (
        saved(dict.fromkeys((f"x{n}" for n in range(10_000)), torch.zeros(250_000))),
        "10,000,000,000 bytes together",
    ),
    "a hundred thousand tensors": (
        saved(dict.fromkeys((f"x{n}" for n in range(100_000)), torch.zeros(1))),
        "more than 20,000 tensors",
    ),
    "a key nested a million times": (packed(b"})" + b"\x85" * 1_000_000 + b"K\x01s"), "ended by SIGSEGV"),
    "eight million lists": (packed(b"]" * 8_000_000), "more memory than a file of"),
    "two gigabytes of nothing": (
        lambda path: path.write_bytes(pickle.dumps({"x": Reserve()}, protocol=2)),
        "more memory than a file of",
    ),
    "a compressed file": (deflated, "more memory than a file of"),
    "the old format with a false length": (old_format_that_claims, "more memory than a file of"),
    "a file of many files": (packed(b"}", entries=[f"archive/{n}" for n in range(100_000)]), "holds no weights"),
    "a pipe": (os.mkfifo, "a pipe, not a file"),
}


@pytest.mark.parametrize("what", some(PICKLES))
def test_a_hostile_pickle_is_refused_on_one_line_in_bounded_memory(what, model, tmp_path):
    write, says = PICKLES[what]
    (model / "pytorch_model.bin").unlink()
    write(model / "pytorch_model.bin")
    out = tmp_path / "out"
    document = one_document(limited("models", "import", model, "--allow-pickle", "--out", out, "--json", home=tmp_path))
    assert re.search(says, document["error"]), document["error"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"], "nothing is left"


def test_what_lies_beside_a_pickle_is_copied_only_when_it_is_small(model, tmp_path):
    of_size(model / "vocab.txt", 2 * 10**9)
    ended = limited("models", "import", model, "--allow-pickle", "--out", tmp_path / "out", "--json", home=tmp_path)
    assert "vocab.txt: 2,000,000,000 bytes" in one_document(ended)["error"]


def test_the_good_folder_of_these_tests_is_shown_and_imported(model, tmp_path):
    assert one_document(limited("models", "show", model, "--json", home=tmp_path))["layers"] == 1
    out = tmp_path / "out"
    done = limited("models", "import", model, "--allow-pickle", "--out", out, "--json", home=tmp_path)
    assert one_document(done) == {"folder": str(out)}


# -- the child that reads a pickle -----------------------------------------------------------------------------------


@pytest.fixture
def endless(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    packed(NESTED)(path)
    return path


def test_a_child_that_computes_too_long_is_ended_by_the_system(endless, tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, "SECONDS", 4)
    with pytest.raises(UserError, match="refused: reading it took more than 4 seconds of computing"):
        unpickle.convert(endless, tmp_path / "out")


def test_a_child_that_is_not_done_in_time_is_ended_by_its_parent(endless, tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, "PATIENCE", 0.2)
    with pytest.raises(UserError, match="refused: it was not read within 4.0 seconds"):
        unpickle.convert(endless, tmp_path / "out")


@pytest.mark.slow
def test_memory_is_given_by_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, "MEMORY", 50_000_000)
    torch.save({"x": torch.zeros(50_000_000)}, tmp_path / "large")
    unpickle.convert(tmp_path / "large", tmp_path / "out")
    monkeypatch.setattr(unpickle, "MEMORY_PER_BYTE", 0.5)
    with pytest.raises(UserError, match="refused: it asks for more memory than a file of 200,00"):
        unpickle.convert(tmp_path / "large", tmp_path / "out")


def children(parent):
    """The processes this one started, with the seconds each has computed, from /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so, seconds):
    until = time.monotonic() + seconds
    while not is_so() and time.monotonic() < until:
        time.sleep(0.05)
    return is_so()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_the_child_that_reads_a_pickle_ends_when_its_parent_is_killed(model, tmp_path):
    packed(NESTED)(model / "pytorch_model.bin")
    command = ["-m", "pocketbert", "models", "import", str(model), "--allow-pickle", "--out", str(tmp_path / "out")]
    parent = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        busy = wait_until(lambda: any(seconds > 4 for seconds in children(parent.pid).values()), 60)
        assert busy, "the child is not in the endless table yet"
        (child,) = children(parent.pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert wait_until(lambda: not is_running(child), 2)
