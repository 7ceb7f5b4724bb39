"""The tokenizer and its learned vocabulary: counts that add up, the same vocabulary every time."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.tokenizer import Tokenizer
from pocketbert.vocabulary import SPECIAL_TOKENS, learn_vocabulary

SMALL = Tokenizer.from_tokens(VOCABULARY)
words = st.lists(st.text("abcdefgh", min_size=1, max_size=6), max_size=12).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(firsts=st.lists(words, min_size=1, max_size=6), limit=st.integers(3, 20), pairs=st.booleans())
def test_no_row_is_longer_than_asked_and_what_was_cut_is_counted(firsts, limit, pairs):
    second_texts = firsts[::-1] if pairs else None
    whole, cut = SMALL(firsts, second_texts), SMALL(firsts, second_texts, max_length=limit)
    assert (cut.lengths <= limit).all()
    assert (cut.lengths + cut.cut == whole.lengths).all()
    tensors = cut.tensors()
    assert tensors["attention_mask"].sum(1).tolist() == cut.lengths.tolist()
    for i in range(len(firsts)):
        row = cut.row(i)
        assert row[0] == SMALL.ids["[CLS]"]
        assert row[-1] == SMALL.ids["[SEP]"]
        assert (row == SMALL.ids["[SEP]"]).sum() == (2 if pairs else 1)
        if pairs:
            assert tensors["token_type_ids"][i].sum() == len(row) - cut.second_starts[i]
    assert ("token_type_ids" in tensors) == pairs


def test_rows_can_be_taken_in_any_order():
    encoded = SMALL(["the film", "a b c d", "h"])
    tensors = encoded.tensors(np.array([2, 0]))
    assert tensors["input_ids"].tolist() == [[2, 12, 3, 0], [2, 21, 22, 3]]
    assert encoded.tensors([])["input_ids"].shape == (0, 0)


def test_nothing_at_all_is_fine():
    assert len(SMALL([])) == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: SMALL("one text"), "list"),
        (lambda: SMALL(["a"], ["b", "c"]), "1 first texts but 2 second"),
        (lambda: SMALL(["a"], ["b"], max_length=2), "no room"),
        (lambda: SMALL(["a", None]), "not all of them are text"),
        (lambda: Tokenizer.learn(["", "  "]), "without a single word"),
        (lambda: Tokenizer.learn(["abc"], size=5), "too small"),
    ],
)
def test_wrong_calls_teach(call, says):
    with pytest.raises(UserError, match=says):
        call()


def test_capitals_in_the_tokens_make_it_cased():
    cased = Tokenizer.from_tokens([*SPECIAL_TOKENS, "The", "the"])
    assert cased(["The the"]).row(0).tolist() == [2, 5, 6, 3]
    assert cased.settings()["do_lower_case"] is False
    uncased = Tokenizer.from_tokens([*SPECIAL_TOKENS, "[unused1]", "the"])
    assert uncased(["The the"]).row(0).tolist() == [2, 6, 6, 3]


TEXTS = ["the cat sat on the mat", "the cats sat", "a hat, a bat and a cat", "mats and hats", "thé çat"] * 3


def test_a_learned_vocabulary_knows_every_word_it_saw_and_keeps_to_its_size():
    tokenizer = Tokenizer.learn(TEXTS, size=60)
    assert len(tokenizer) <= 60
    assert tokenizer.tokens[:5] == list(SPECIAL_TOKENS)
    encoded = tokenizer(TEXTS)
    assert not (encoded.ids == tokenizer.ids["[UNK]"]).any()
    assert tokenizer.decode(encoded.row(0)) == "the cat sat on the mat"
    assert "the" in tokenizer.tokens


def test_the_most_frequent_pair_is_joined_first_and_ties_go_to_the_first_in_the_alphabet():
    learned = learn_vocabulary(["ab ab ab", "cd cd", "xy xy"], size=5 + 6 + 3)
    assert learned[11:] == ["ab", "cd", "xy"]


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(words.filter(str.strip), min_size=1, max_size=8), size=st.integers(30, 60))
def test_tokens_of_any_learned_vocabulary_are_different_and_cover_the_text(texts, size):
    tokens = learn_vocabulary(texts, size, at_least=1)
    assert len(set(tokens)) == len(tokens) <= size
    tokenizer = Tokenizer.from_tokens(tokens, lowercase=True)
    assert not (tokenizer(texts).ids == tokenizer.ids["[UNK]"]).any()


def test_two_processes_learn_the_same_vocabulary(data):
    """The library's own trainer does not: that is why ours exists."""
    program = (
        "import sys, hashlib; from pocketbert.vocabulary import learn_vocabulary\n"
        "texts = [line[2:] for line in open(sys.argv[1], encoding='latin-1')]\n"
        "print(hashlib.sha256('\\n'.join(learn_vocabulary(texts, 4000)).encode()).hexdigest())"
    )
    path = data / "sst2_classic" / "harvardnlp_stsa.binary.train"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("aB é  \t\ń中Σ[]"))
        | st.just(" [MASK]a [SEP] x"),
        max_size=8,
    )
)
def test_reading_word_by_word_equals_reading_whole_texts(texts):
    assert SMALL._word_by_word
    whole = [SMALL._backend.encode(text).ids for text in texts]
    encoded = SMALL(texts)
    assert [encoded.row(i).tolist() for i in range(len(texts))] == whole


def test_threads_may_share_a_tokenizer():
    import threading

    long = "a" * 150
    texts = [f"the film {long}{n % 3} b{n}" for n in range(200)]
    whole = [SMALL._backend.encode(text).ids for text in texts]
    shared = Tokenizer.from_tokens(VOCABULARY)
    wrong = []

    def read():
        for _ in range(30):
            encoded = shared(texts)
            if [encoded.row(i).tolist() for i in range(len(texts))] != whole:
                wrong.append(1)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert not wrong


def test_a_tokenizer_with_another_splitter_reads_whole_texts(tmp_path):
    from tokenizers.pre_tokenizers import Whitespace

    other = Tokenizer.from_tokens(VOCABULARY)._backend
    other.pre_tokenizer = Whitespace()
    assert not Tokenizer(other)._word_by_word
    assert Tokenizer(other)(["the film"]).row(0).tolist() == SMALL(["the film"]).row(0).tolist()
