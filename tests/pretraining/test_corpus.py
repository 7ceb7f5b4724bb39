"""The tokenised corpus on disk."""

import json

import numpy as np
import pytest

from pocketbert.errors import UserError
from pocketbert.pretraining import corpus as module
from pocketbert.pretraining.corpus import Reading, open_corpus
from pocketbert.pretraining.text import read_documents

from .conftest import make_documents, write_corpus

READING = Reading(vocabulary_size=120, held_out=0.05)


def test_the_arrays_hold_every_sentence_of_every_document(corpus, text_file):
    documents = list(read_documents([text_file]))
    assert len(corpus.firsts) == len(documents) + 1
    for number in (0, 7, len(documents) - 1):
        sentences = [
            corpus.tokenizer.decode(corpus.sentence(s)) for s in range(corpus.firsts[number], corpus.firsts[number + 1])
        ]
        assert [s.replace(" ", "") for s in sentences] == [s.lower().replace(" ", "") for s in documents[number]]
    assert corpus.ids.dtype == np.uint16
    assert corpus.starts[-1] == len(corpus.ids) == corpus.metadata["tokens"]
    train = np.concatenate(
        [corpus.sentence(s) for d in corpus.documents(held=False) for s in range(*corpus.firsts[d : d + 2])]
    )
    assert (corpus.word_counts() == np.bincount(train, minlength=len(corpus.tokenizer))).all()


def test_the_same_texts_are_read_once_and_others_again(tmp_path, text_file, monkeypatch):
    first = open_corpus([text_file], READING, tmp_path)
    built = []
    monkeypatch.setattr(module, "_build", lambda *a: built.append(1))
    again = open_corpus([text_file], READING, tmp_path)
    assert (again.ids == first.ids).all()
    assert not built
    with pytest.raises(UserError):  # nothing was built by the replaced function
        open_corpus([text_file], Reading(vocabulary_size=130, held_out=0.05), tmp_path)
    assert built


def test_a_killed_or_failed_build_leaves_nothing(tmp_path, text_file, monkeypatch):
    monkeypatch.setattr(module, "_held_out", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_corpus([text_file], READING, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_documents_are_held_out_whole_and_stay_when_others_come(tmp_path):
    def held(documents: list[str], name: str) -> set[str]:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
        corpus = open_corpus([path], Reading(vocabulary_size=120, held_out=0.1), tmp_path)
        assert corpus.metadata["held_out_documents"] >= max(2, round(0.1 * len(documents)))
        return {documents[d] for d in corpus.documents(held=True)}

    documents = make_documents(200)
    few, all_of_them = held(documents[:100], "few"), held(documents, "all")
    assert len(all_of_them) == 20
    # A hash decides: what is held out of the small corpus is held out of the large one, but for the rounding.
    assert len(few - all_of_them) <= len(few) // 2
    doubled = held(documents[:50] * 2, "doubled")  # copies never part
    assert 2 <= len(doubled) <= 10


def test_the_vocabulary_is_learned_from_a_bounded_sample_that_the_seed_draws(tmp_path):
    path = write_corpus(tmp_path / "a.jsonl", count=300)
    reading = Reading(vocabulary_size=90, vocabulary_sample=2_000)
    tokens = [open_corpus([path], reading, tmp_path / str(seed), seed=seed).tokenizer.tokens for seed in (0, 0, 1)]
    assert tokens[0] == tokens[1]
    assert len(tokens[0]) <= 90


def test_a_given_vocabulary_is_taken(tmp_path, text_file, corpus):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(corpus.tokenizer.tokens) + "\n")
    given = open_corpus([text_file], Reading(vocabulary=str(path)), tmp_path / "cache")
    assert given.tokenizer.tokens == corpus.tokenizer.tokens
    assert (given.ids == corpus.ids).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty corpus"),
        ("\n\n\n", "empty corpus"),
        ("----\n", "empty corpus"),
        ("one line only one line only\n", "one line"),
        ("One is here. Two are there.\n", "1 different documents; at least 4"),
    ],
)
def test_too_little_text_is_said(tmp_path, content, message):
    path = tmp_path / "small.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        open_corpus([path], Reading(vocabulary_size=60), tmp_path / "cache")


def test_a_damaged_corpus_is_named(tmp_path, text_file):
    open_corpus([text_file], READING, tmp_path)
    (folder,) = tmp_path.glob("corpus-*")
    (folder / "ids").write_bytes((folder / "ids").read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        open_corpus([text_file], READING, tmp_path)


def test_the_same_bytes_as_another_kind_of_file_are_another_corpus(tmp_path, text_file):
    as_text = tmp_path / "toy.txt"
    as_text.write_bytes(text_file.read_bytes())
    again = tmp_path / "again.jsonl"
    again.write_bytes(text_file.read_bytes())
    assert module.fingerprint_texts([as_text]) != module.fingerprint_texts([text_file])
    assert module.fingerprint_texts([again]) == module.fingerprint_texts([text_file])


def test_copies_of_a_document_are_on_one_side_and_others_remain(tmp_path):
    copies = [{"text": "A ship was at sea. It sank."}] * 30
    others = [{"text": f"Bread number {number} was good. It was eaten."} for number in range(4)]
    path = tmp_path / "copies.jsonl"
    path.write_text("\n".join(map(json.dumps, copies + others)))
    held = open_corpus([path], Reading(vocabulary_size=60, held_out=0.05), tmp_path / "cache").held
    assert len(set(held[:30].tolist())) == 1
    assert 0 < held.sum() < len(held)
    assert not held.all()
    path.write_text("\n".join(map(json.dumps, copies)))
    with pytest.raises(UserError, match="1 different documents"):
        open_corpus([path], Reading(vocabulary_size=60), tmp_path / "cache")
