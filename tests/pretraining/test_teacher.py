"""The teacher: sentence vectors that are kept, word vectors that are reduced."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pocketbert.checkpoints import save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.pretraining import teacher as module
from pocketbert.pretraining.teacher import (
    Lessons,
    choose_sentences,
    find_teacher,
    principal_components,
    sentence_text,
    sentence_vectors,
    word_table,
)
from pocketbert.tokenizer import Tokenizer

from .conftest import make_documents


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    tokenizer = Tokenizer.learn(make_documents(80, seed=9), size=100)
    config = Config(vocabulary=len(tokenizer), width=48, layers=2, heads=4, inner=64, positions=64)
    folder = tmp_path_factory.mktemp("teacher") / "big"
    save_model(Encoder(config, seed=4), folder, tokenizer)
    return find_teacher(str(folder))


def test_vectors_are_the_mean_of_the_tokens_with_length_one(corpus, teacher, tmp_path):
    chosen = choose_sentences(corpus, 50, 40, seed=0)
    vectors = sentence_vectors(teacher, corpus, chosen, tmp_path)
    assert vectors.shape == (50, 48)
    assert vectors.dtype == np.float16
    texts = [sentence_text(corpus, number, corpus.tokenizer.tokens) for number in chosen[:5]]
    assert texts[0].endswith(" .")
    encoder = teacher.model.encoder().eval()
    for text, vector in zip(texts, vectors, strict=False):
        with torch.no_grad():
            states = encoder(**teacher.tokenizer([text]).tensors()).last_hidden_state[0]
        expected = F.normalize(states.mean(dim=0), dim=0).numpy()
        assert np.abs(vector - expected).max() < 1e-3


def test_chosen_sentences_are_of_the_training_side_and_drawn_by_the_seed(corpus):
    chosen = choose_sentences(corpus, 100, 40, seed=0)
    assert (choose_sentences(corpus, 100, 40, seed=0) == chosen).all()
    assert (choose_sentences(corpus, 100, 40, seed=1) != chosen).any()
    document = np.searchsorted(corpus.firsts, chosen, side="right") - 1
    assert not corpus.held[document].any()
    with pytest.raises(UserError, match="no sentences"):
        choose_sentences(corpus, 10, 5, seed=0)


def test_a_killed_teacher_goes_on_with_the_next_chunk(corpus, teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    chosen = choose_sentences(corpus, 60, 40, seed=0)
    whole = np.array(sentence_vectors(teacher, corpus, chosen, tmp_path / "whole"))
    calls = []
    real = module.read_all

    def dies(*arguments, **named):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(module, "read_all", dies)
    with pytest.raises(KeyboardInterrupt):
        sentence_vectors(teacher, corpus, chosen, tmp_path / "killed")
    (path,) = (tmp_path / "killed").glob("vectors-*/vectors")
    with path.open("ab") as file:
        file.write(b"half a row")
    again = sentence_vectors(teacher, corpus, chosen, tmp_path / "killed")
    assert len(calls) == 5  # two of four chunks were there
    assert (np.array(again) == whole).all()
    sentence_vectors(teacher, corpus, chosen, tmp_path / "killed")
    assert len(calls) == 5  # and now all are


def test_asking_for_more_adds_to_what_is_there_and_changes_no_bit(corpus, teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    sentences = choose_sentences(corpus, 60, 40, seed=0)
    assert (choose_sentences(corpus, 20, 40, seed=0) == sentences[:20]).all()
    whole = np.array(sentence_vectors(teacher, corpus, sentences, tmp_path / "whole"))
    few = np.array(sentence_vectors(teacher, corpus, sentences[:20], tmp_path / "grown"))
    more = np.array(sentence_vectors(teacher, corpus, sentences, tmp_path / "grown"))
    assert (more == whole).all()
    assert (more[:16] == few[:16]).all()
    other = choose_sentences(corpus, 60, 40, seed=1)  # under a name that is taken: made anew
    again = np.array(sentence_vectors(teacher, corpus, other, tmp_path / "grown"))
    assert (again == np.array(sentence_vectors(teacher, corpus, other, tmp_path / "other"))).all()


def test_a_long_document_gives_no_more_than_its_share(corpus, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    chosen = choose_sentences(corpus, 10_000, 40, seed=0)
    document = np.searchsorted(corpus.firsts, chosen, side="right") - 1
    assert np.bincount(document).max() == 2


def test_lessons_give_a_sentence_with_its_vector(corpus, teacher, tmp_path):
    chosen = choose_sentences(corpus, 40, 40, seed=0)
    vectors = np.arange(40, dtype=np.float16)[:, None]  # a sentence's vector is its place in the list
    lessons = Lessons(corpus, chosen, vectors, batch_size=8, max_length=40, seed=0)
    seen = []
    for step in range(5):
        batch, taught = lessons.batch(step)
        for ids, mask, number in zip(batch["input_ids"], batch["attention_mask"], taught[:, 0].int(), strict=True):
            text = ids[mask.bool()].numpy()
            assert text[0] == corpus.tokenizer.ids["[CLS]"]
            assert text[-1] == corpus.tokenizer.ids["[SEP]"]
            assert (text[1:-1] == corpus.sentence(chosen[number])).all()
        seen += taught[:, 0].tolist()
        halves = [lessons.batch(step, rank, 2) for rank in (0, 1)]
        assert torch.equal(halves[1][0]["input_ids"], batch["input_ids"][1::2])
        assert torch.equal(halves[0][1], taught)  # the vectors are everybody's
    assert sorted(seen) == list(range(40))


def test_principal_components_keep_the_distances_that_matter():
    random = np.random.default_rng(0)
    flat = random.normal(size=(300, 5)) @ random.normal(size=(5, 40))  # five directions in forty
    reduced = principal_components(flat, 8)
    between = [np.linalg.norm(x[:50, None] - x[None, :50], axis=2) for x in (flat, reduced)]
    assert np.allclose(between[0], between[1])
    assert np.allclose(reduced.mean(axis=0), 0)
    spread = reduced.std(axis=0)
    assert (np.diff(spread[:5]) <= 1e-9).all()
    assert np.allclose(spread[5:], 0, atol=1e-6)


def test_word_vectors_come_from_the_teachers_pieces(corpus, teacher):
    table = word_table(teacher, corpus.tokenizer, 16, 0.02)
    tokens, theirs = corpus.tokenizer.tokens, teacher.tokenizer.tokens
    assert table.shape == (len(tokens), 16)
    assert abs(table.std() - 0.02) < 2e-3
    assert (table[corpus.tokenizer.padding_id] == 0).all()
    # At full width nothing is reduced: angles between centred vectors are the teacher's own.
    wide = word_table(teacher, corpus.tokenizer, 48, 0.02).astype(np.float64)
    original = teacher.model.encoder().embeddings.word.weight.detach().double().numpy()
    shared = [token for token in tokens if token in theirs][1:]
    ours = wide[[tokens.index(token) for token in shared]]
    own = original[[theirs.index(token) for token in shared]]
    differences = [np.linalg.norm(x[:, None] - x[None], axis=2) for x in (ours, own)]
    ratio = differences[0][differences[1] > 0] / differences[1][differences[1] > 0]
    assert ratio.std() / ratio.mean() < 1e-4


def test_a_shape_cannot_teach():
    with pytest.raises(UserError, match="no pretrained weights"):
        find_teacher("tiny")
    with pytest.raises(UserError, match="no model 'nobody'"):
        find_teacher("nobody")
