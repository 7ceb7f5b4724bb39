"""What a teacher says of sentences and of their words: kept whole, given in batches."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pocketbert.errors import UserError
from pocketbert.pretraining import distillation as module
from pocketbert.pretraining.distillation import (
    STEPS,
    DistillationBatches,
    TeacherTargets,
    ask_teacher,
    choose_sentences,
    continuing,
    find_words,
    sentence_text,
    word_means,
)
from pocketbert.pretraining.teacher import find_teacher


@pytest.fixture(scope="module")
def teacher(big_teacher):
    return find_teacher(big_teacher)


def vectors_of(teacher, corpus, sentences, cache):
    return ask_teacher(teacher, corpus, sentences, cache).vectors


def test_vectors_are_the_mean_of_the_tokens_with_length_one(corpus, teacher, tmp_path):
    chosen = choose_sentences(corpus, 50, 40, seed=0)
    vectors = vectors_of(teacher, corpus, chosen, tmp_path)
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
    whole = np.array(vectors_of(teacher, corpus, chosen, tmp_path / "whole"))
    calls = []
    real = module._Reader.__call__

    def dies(*arguments, **named):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(module._Reader, "__call__", dies)
    with pytest.raises(KeyboardInterrupt):
        vectors_of(teacher, corpus, chosen, tmp_path / "killed")
    (path,) = (tmp_path / "killed").glob("vectors-*/vectors")
    with path.open("ab") as file:
        file.write(b"half a row")
    again = vectors_of(teacher, corpus, chosen, tmp_path / "killed")
    assert len(calls) == 5  # two of four chunks were there
    assert (np.array(again) == whole).all()
    vectors_of(teacher, corpus, chosen, tmp_path / "killed")
    assert len(calls) == 5  # and now all are


def test_asking_for_more_adds_to_what_is_there_and_changes_no_bit(corpus, teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    sentences = choose_sentences(corpus, 60, 40, seed=0)
    assert (choose_sentences(corpus, 20, 40, seed=0) == sentences[:20]).all()
    whole = np.array(vectors_of(teacher, corpus, sentences, tmp_path / "whole"))
    few = np.array(vectors_of(teacher, corpus, sentences[:20], tmp_path / "grown"))
    more = np.array(vectors_of(teacher, corpus, sentences, tmp_path / "grown"))
    assert (more == whole).all()
    assert (more[:16] == few[:16]).all()
    other = choose_sentences(corpus, 60, 40, seed=1)  # under a name that is taken: made anew
    again = np.array(vectors_of(teacher, corpus, other, tmp_path / "grown"))
    assert (again == np.array(vectors_of(teacher, corpus, other, tmp_path / "other"))).all()


def test_a_long_document_gives_no_more_than_its_share(corpus, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    chosen = choose_sentences(corpus, 10_000, 40, seed=0)
    document = np.searchsorted(corpus.firsts, chosen, side="right") - 1
    assert np.bincount(document).max() == 2


def test_lessons_give_a_sentence_with_its_vector(corpus, teacher, tmp_path):
    chosen = choose_sentences(corpus, 40, 40, seed=0)
    vectors = np.arange(40, dtype=np.float16)[:, None]  # a sentence's vector is its place in the list
    distillation = DistillationBatches(corpus, chosen, TeacherTargets(vectors), batch_size=8, max_length=40, seed=0)
    seen = []
    for step in range(5):
        distillation_batch = distillation.batch(step)
        batch, taught = distillation_batch.sentences, distillation_batch.vectors
        for ids, mask, number in zip(batch["input_ids"], batch["attention_mask"], taught[:, 0].int(), strict=True):
            text = ids[mask.bool()].numpy()
            assert text[0] == corpus.tokenizer.ids["[CLS]"]
            assert text[-1] == corpus.tokenizer.ids["[SEP]"]
            assert (text[1:-1] == corpus.sentence(chosen[number])).all()
        seen += taught[:, 0].tolist()
        halves = [distillation.batch(step, rank, 2) for rank in (0, 1)]
        assert torch.equal(halves[1].sentences["input_ids"], batch["input_ids"][1::2])
        assert torch.equal(halves[0].vectors, taught)  # the vectors are everybody's
    assert sorted(seen) == list(range(40))


def test_words_are_found_in_their_pieces():
    goes_on = np.array([False, False, False, False, True])  # padding, [CLS], [SEP], a beginning, a going on
    ids = np.array([[1, 3, 4, 3, 2, 0], [1, 3, 4, 4, 3, 2]])
    places, numbers, counts = find_words(ids, np.array([5, 6]), goes_on)
    assert places.tolist() == [1, 2, 3, 7, 8, 9, 10]
    assert numbers.tolist() == [0, 0, 1, 2, 2, 2, 3]
    assert counts.tolist() == [2, 2]
    states = torch.arange(12.0).view(2, 6, 1)
    means = word_means(states, torch.from_numpy(places), torch.from_numpy(numbers), 4)
    assert means[:, 0].tolist() == [1.5, 3.0, 8.0, 10.0]


def by_hand(teacher, corpus, number, layer):
    """A sentence's words' states, one sentence and one word at a time."""
    words = sentence_text(corpus, number, corpus.tokenizer.tokens).split(" ")
    encoder = teacher.model.encoder().eval()
    with torch.no_grad():
        batch = teacher.tokenizer([" ".join(words)]).tensors()
        states = encoder(**batch, hidden_states=True).hidden_states[layer][0, 1:-1].numpy()
    result, begin = [], 0
    for word in words:
        pieces = len(teacher.tokenizer([word]).row(0)) - 2
        result.append(states[begin : begin + pieces].mean(axis=0))
        begin += pieces
    assert begin == len(states)
    return np.stack(result)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_states_of_words_are_those_of_the_layer(corpus, teacher, tmp_path, layer):
    chosen = choose_sentences(corpus, 50, 40, seed=0)
    targets = ask_teacher(teacher, corpus, chosen, tmp_path, layer=layer)
    expected = [by_hand(teacher, corpus, number, layer) for number in chosen]
    assert targets.counts.tolist() == [len(words) for words in expected]
    every = np.concatenate(expected)
    standard = (every - every.mean(axis=0)) / every.std(axis=0)
    assert np.abs(targets.states / STEPS - np.clip(standard, -127 / STEPS, 127 / STEPS)).max() < 0.51 / STEPS + 1e-3
    assert (
        np.array(targets.vectors) == np.array(ask_teacher(teacher, corpus, chosen, tmp_path / "plain").vectors)
    ).all()


def test_sentences_in_which_the_two_see_other_words_are_left_out(corpus, teacher, tmp_path, monkeypatch):
    real = module.sentence_text

    def altered(corpus, number, tokens):  # one word more, one word less in some
        text = real(corpus, number, tokens)
        return {0: text + " sea", 1: text.rsplit(" ", 1)[0]}.get(number % 4, text)

    monkeypatch.setattr(module, "sentence_text", altered)
    chosen = choose_sentences(corpus, 50, 40, seed=0)
    targets = ask_teacher(teacher, corpus, chosen, tmp_path, layer=1)
    assert ((targets.counts == 0) == (chosen % 4 < 2)).all()
    monkeypatch.setattr(module, "sentence_text", lambda *_: "sea")
    with pytest.raises(UserError, match="see the same words in hardly any sentence"):
        ask_teacher(teacher, corpus, chosen, tmp_path / "none", layer=1)


def test_what_another_process_filled_meanwhile_is_not_touched(tmp_path):
    """It may be reading it: a file that is cut under a reader kills it."""
    asked = []

    def read(sentences):
        asked.append(len(sentences))
        states = [np.full((2, 4), number, dtype=np.float32) for number in sentences]
        return np.ones((len(sentences), 4), dtype=np.float32), states

    teacher_cache = module.TeacherCache(tmp_path, 4, words=True)
    teacher_cache.fill(np.arange(60), read, None)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    teacher_cache.fill(np.arange(32), read, None)
    teacher_cache.fill(np.arange(60), read, None)
    assert asked == [60]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_kept_states_grow_and_survive_a_kill_without_a_changed_bit(corpus, teacher, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    chosen = choose_sentences(corpus, 60, 40, seed=0)
    whole = ask_teacher(teacher, corpus, chosen, tmp_path / "whole", layer=1)
    ask_teacher(teacher, corpus, chosen[:32], tmp_path / "grown", layer=1)
    (folder,) = (tmp_path / "grown").glob("vectors-*")
    for name in ("states", "counts", "vectors"):  # killed before the next chunk was named
        with (folder / name).open("ab") as file:
            file.write(b"12345678" * 100)
    grown = ask_teacher(teacher, corpus, chosen, tmp_path / "grown", layer=1)
    for one, other in ((whole.vectors, grown.vectors), (whole.counts, grown.counts), (whole.states, grown.states)):
        assert (np.array(one) == np.array(other)).all()


def test_lessons_give_each_word_its_state(corpus):
    """Every word's state is its sentence and its place there; sentences without states are left out."""
    chosen = choose_sentences(corpus, 40, 40, seed=0)
    goes_on = continuing(corpus.tokenizer)
    counts = np.array([(~goes_on[corpus.sentence(number)]).sum() for number in chosen])
    counts[::5] = 0
    named = [(row, place) for row in range(40) for place in range(counts[row])]
    targets = TeacherTargets(np.arange(40, dtype=np.float16)[:, None], counts, np.array(named, dtype=np.int8))
    distillation = DistillationBatches(corpus, chosen, targets, batch_size=8, max_length=40, seed=0)
    seen = 0
    for step in range(5):
        distillation_batch = distillation.batch(step)
        ids, rows = distillation_batch.sentences["input_ids"], distillation_batch.vectors[:, 0].int().tolist()
        for place, number in zip(
            distillation_batch.words.places.tolist(), distillation_batch.words.numbers.tolist(), strict=True
        ):
            row, column = divmod(place, ids.shape[1])
            assert rows[row] == distillation_batch.words.states[number, 0]
            before = ids[row, 1 : column + 1].numpy()
            assert (~goes_on[before]).sum() - 1 == distillation_batch.words.states[number, 1]
        seen += len(distillation_batch.words.states)
        assert distillation_batch.words.everywhere == len(distillation_batch.words.states)
        halves = [distillation.batch(step, rank, 2).words for rank in (0, 1)]
        assert sum(len(half.states) for half in halves) == halves[0].everywhere == halves[1].everywhere
        assert len(distillation.batch(step, 8, 9).words.states) == 0  # more processes than sentences
        assert ids.shape[1] % 3 == 0 or ids.shape[1] == 40  # a sixteenth of the longest, rounded up: few shapes
        assert len(distillation_batch.words.places) <= distillation_batch.words.computed
        assert distillation_batch.words.computed % (8 * 40 // 16) == 0
    assert seen == len(named)
