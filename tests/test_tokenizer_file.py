"""tokenizer.json: every way real BERTs write theirs is read, and gives what the library gives; the rest is refused."""

import contextlib
import json

import pytest
import tokenizers
from conftest import VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.tokenizer import Tokenizer
from pocketbert.tokenizer_file import read_tokenizer_file

TEXTS = ["The film", " thé fílm, a.b!", "[MASK]abc [SEP] 中 x", "", "a" * 300, "ﬁlm THE\tfilm\n"]
PLAIN = json.loads(Tokenizer.from_tokens(VOCABULARY).to_json())
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": True}


def steps(field, *kinds):
    return {"type": "Sequence", field: [{"type": kind} for kind in kinds]}


GOOD = {
    "BERT's own": {},
    "cased": {"normalizer": {**BERT, "lowercase": False}},
    "the steps of the library's guide": {"normalizer": steps("normalizers", "NFD", "Lowercase", "StripAccents")},
    "other forms of letters": {"normalizer": steps("normalizers", "NFKC", "NFC", "NFKD")},
    "nothing at the ends": {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
    "no normaliser": {"normalizer": None},
    "split at spaces": {"pre_tokenizer": {"type": "Whitespace"}},
    "split in two steps": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}],
        }
    },
    "the older layout": {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}},
    "a token more": {"added_tokens": [*PLAIN["added_tokens"], {**PLAIN["added_tokens"][0], "id": 23, "content": "x"}]},
    "no decoder": {"decoder": None},
    "no added tokens": {"added_tokens": []},
    "padding and truncation": {
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 128},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
    },
}


@pytest.mark.parametrize("what", GOOD)
def test_a_real_tokenizer_gives_what_the_library_gives(what, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**PLAIN, **GOOD[what]}))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.no_padding()
    theirs.no_truncation()
    ours = Tokenizer.from_json(path)
    encoded = ours(TEXTS, TEXTS[::-1])
    for index, pair in enumerate(zip(TEXTS, TEXTS[::-1], strict=True)):
        assert encoded.row(index).tolist() == theirs.encode(*pair).ids
    assert json.loads(ours.to_json()) == json.loads(theirs.to_str()), "and is written again as it was"


def model(**fields):
    return {"model": {**PLAIN["model"], **fields}}


def added(**fields):
    return {"added_tokens": [{**PLAIN["added_tokens"][0], **fields}]}


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BAD = {
    "a normaliser of another kind": ({"normalizer": REPLACE}, "'normalizer' asks for 'Replace'; a BERT tokenizer has"),
    "one among others": ({"normalizer": {"type": "Sequence", "normalizers": [BERT, REPLACE]}}, "asks for 'Replace'"),
    "a sequence in a sequence": (
        {"normalizer": {"type": "Sequence", "normalizers": [steps("normalizers", "NFC")]}},
        "asks for 'Sequence'",
    ),
    "a sequence without end": ({"normalizer": steps("normalizers", *["NFC"] * 9)}, "at most 8 'normalizers'"),
    "a splitter with a regular expression": ({"pre_tokenizer": {"type": "Split"}}, "'pre_tokenizer' asks for 'Split'"),
    "a splitter that is a list": ({"pre_tokenizer": [1]}, r"'pre_tokenizer' asks for \[1\]"),
    "a kind that is a list": ({"pre_tokenizer": {"type": ["Whitespace"]}}, r"asks for \['Whitespace'\]"),
    "a field of a wrong type": ({"normalizer": {**BERT, "lowercase": 3}}, "not a tokenizer"),
    "another decoder": ({"decoder": {"type": "ByteLevel"}}, "'decoder' is"),
    "a table of no numbers": (model(vocab={"a": "0"}), "'model.vocab' is missing or no table"),
    "a yes among the ids": (model(vocab={**PLAIN["model"]["vocab"], "[UNK]": True}), "no table of tokens"),
    "an unknown that is unknown": (model(unk_token="<unk>"), "'model.unk_token' is '<unk>'"),
    "words of no letters": (model(max_input_chars_per_word=0), "'model.max_input_chars_per_word' is 0"),
    "an added token of another id": (added(id=7), r"'\[PAD\]' has another id"),
    "an added token far away": (added(content="x", id=10**6), "ids are not 0 to 23"),
    "an added token of nothing": (added(content=""), "tokens with their 'content'"),
    "an added token that is a text": ({"added_tokens": ["[PAD]"]}, "found '\\[PAD\\]'"),
    "half a letter": (
        model(vocab={**PLAIN["model"]["vocab"], "\ud800": 23}),
        "not a tokenizer",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_bert_has_is_refused_by_its_field(what, tmp_path):
    change, says = BAD[what]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**PLAIN, **change}))
    with pytest.raises(UserError, match=says) as caught:
        Tokenizer.from_json(path)
    assert str(caught.value).startswith(f"{path}: ")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["Replace", "NFC"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "content"]), inner),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(field=st.sampled_from(sorted(PLAIN)), inside=st.none() | st.integers(0, 9), value=values)
def test_any_value_in_any_place_is_read_or_refused(tmp_path_factory, field, inside, value):
    content = json.loads(json.dumps(PLAIN))
    part = content[field]
    if inside is None or not part or isinstance(part, str):
        content[field] = value
    elif isinstance(part, list):
        part[inside % len(part)] = value
    else:
        part[sorted(part)[inside % len(part)]] = value
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(content))
    with contextlib.suppress(UserError):
        Tokenizer.from_json(path)(["the film"])


def test_what_is_not_named_does_not_reach_the_library(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**PLAIN, "padding": {"strategy": {"Fixed": 10**9}}, "surprise": [1] * 1_000}))
    content = read_tokenizer_file(path)
    assert content["padding"] is None
    assert "surprise" not in content
