"""tokenizer.json, checked before the library sees it: the parts BERT's tokenizers are made of, each within bounds.

The library builds whatever a file asks for, and some of it has no end: a chain of `Replace` doubles a text at every
link, padding goes to any length, a bad regular expression ends the process. So the file is not handed on. It is made
anew from the kinds and fields named here; other kinds are refused, other fields are left out.
"""

from pathlib import Path
from typing import Any

from pocketbert.errors import UserError, quote
from pocketbert.files import read_json

# Twice the largest BERT vocabulary there is (LaBSE, 501,153 tokens in 10 MB), and a JSON of it stays small in memory.
MOST_BYTES = 16_000_000
MOST_TOKENS = 1_000_000
LONGEST_TOKEN = 200  # characters; a word of more than 100 is unknown anyway
MOST_ADDED = 10_000  # tokens that are looked for in the raw text, before it is split
MOST_STEPS = 8  # of a normaliser or a splitter that is a sequence
MOST_LETTERS = 1_000  # of a word that is cut into pieces: the work grows with their square
LONGEST_PREFIX = 16

# Each kind with the fields it may have.
NORMALISERS = {
    "BertNormalizer": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
    "NFC": (),
    "NFD": (),
    "NFKC": (),
    "NFKD": (),
    "Lowercase": (),
    "StripAccents": (),
    "Strip": ("strip_left", "strip_right"),
}
SPLITTERS = {"BertPreTokenizer": (), "Whitespace": (), "WhitespaceSplit": (), "Punctuation": ("behavior",)}

# [CLS] a [SEP] b [SEP], the second text and what ends it of type 1.
_FIRST = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]
_SECOND = [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]


def read_tokenizer_file(path: Path) -> dict[str, Any]:
    """The content of a BERT's tokenizer.json, fit to be given to the library."""
    content = read_json(path, most_bytes=MOST_BYTES)
    try:
        return _checked(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def check_tokens(tokens: Any) -> None:
    """Refuse more tokens, and longer ones, than any BERT has."""
    if len(tokens) > MOST_TOKENS:
        raise UserError(f"{len(tokens):,} tokens; a vocabulary here has at most {MOST_TOKENS:,}")
    longest = max(tokens, key=len, default="")
    if len(longest) > LONGEST_TOKEN:
        raise UserError(
            f"token {quote(longest)} has {len(longest):,} characters; a token here has at most {LONGEST_TOKEN:,}"
        )


def _checked(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UserError(f"expected a JSON object, found {type(content).__name__}")
    model = _model(content.get("model"))
    added = _added(content.get("added_tokens"), model["vocab"])
    ids = {**model["vocab"], **{token["content"]: token["id"] for token in added}}
    return {
        "version": "1.0",
        "truncation": None,  # both are done here, not by the library
        "padding": None,
        "added_tokens": added,
        "normalizer": _steps(content, "normalizer", "normalizers", NORMALISERS),
        "pre_tokenizer": _steps(content, "pre_tokenizer", "pretokenizers", SPLITTERS),
        "post_processor": _layout(content.get("post_processor"), ids),
        "decoder": _decoder(content.get("decoder")),
        "model": model,
    }


def _model(model: Any) -> dict[str, Any]:
    kind = model.get("type", "WordPiece") if isinstance(model, dict) else None
    if kind != "WordPiece":
        raise UserError(f"field 'model.type' is {quote(kind)}; a BERT tokenizer is 'WordPiece'")
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not all(type(row) is int for row in vocabulary.values()):
        raise UserError("not a tokenizer: field 'model.vocab' is missing or no table of tokens to whole numbers")
    check_tokens(vocabulary)
    unknown = model.get("unk_token", "[UNK]")
    if not isinstance(unknown, str) or unknown not in vocabulary:
        raise UserError(f"field 'model.unk_token' is {quote(unknown)}, which is not in the vocabulary")
    longest = model.get("max_input_chars_per_word", 100)
    if type(longest) is not int or not 1 <= longest <= MOST_LETTERS:
        raise UserError(f"field 'model.max_input_chars_per_word' is {quote(longest)}; expected 1 to {MOST_LETTERS:,}")
    return {
        "type": "WordPiece",
        "unk_token": unknown,
        "continuing_subword_prefix": _prefix(model, "continuing_subword_prefix", "model.continuing_subword_prefix"),
        "max_input_chars_per_word": longest,
        "vocab": vocabulary,
    }


def _prefix(part: dict[str, Any], name: str, field: str) -> str:
    prefix = part.get(name, "##")
    if not isinstance(prefix, str) or len(prefix) > LONGEST_PREFIX:
        raise UserError(f"field '{field}' is {quote(prefix)}; expected a text of at most {LONGEST_PREFIX} characters")
    return prefix


def _added(given: Any, vocabulary: dict[str, int]) -> list[dict[str, Any]]:
    """The tokens looked for before splitting: each the vocabulary's own, or a next row after it."""
    given = [] if given is None else given
    if not isinstance(given, list) or len(given) > MOST_ADDED:
        raise UserError(f"field 'added_tokens': expected a list of at most {MOST_ADDED:,} tokens")
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    tokens = []
    for token in given:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not token["content"]:
            raise UserError(f"field 'added_tokens': expected tokens with their 'content', found {quote(token)}")
        if type(token.get("id")) is not int or not all(isinstance(token.get(flag, False), bool) for flag in flags):
            raise UserError(f"field 'added_tokens': a wrong 'id' or mark in {quote(token)}")
        tokens.append({name: token[name] for name in ("id", "content", *flags) if name in token})
    contents = [token["content"] for token in tokens]
    check_tokens(contents)
    rows = sorted([*vocabulary.values(), *(token["id"] for token in tokens if token["content"] not in vocabulary)])
    if rows != list(range(len(rows))):
        raise UserError(f"field 'model.vocab': ids are not 0 to {len(rows) - 1}, each once")
    for token in tokens:
        if vocabulary.get(token["content"], token["id"]) != token["id"]:
            raise UserError(f"field 'added_tokens': {quote(token['content'])} has another id than in 'model.vocab'")
    return tokens


def _steps(content: dict[str, Any], name: str, plural: str, kinds: dict[str, tuple[str, ...]]) -> dict[str, Any] | None:
    """A normaliser or a splitter: one of the kinds, or a sequence of them."""
    part = content.get(name)
    if part is None:
        return None
    if isinstance(part, dict) and part.get("type") == "Sequence":
        steps = part.get(plural)
        if not isinstance(steps, list) or len(steps) > MOST_STEPS:
            raise UserError(f"field '{name}': expected a sequence of at most {MOST_STEPS} '{plural}'")
        return {"type": "Sequence", plural: [_step(step, name, kinds) for step in steps]}
    return _step(part, name, kinds)


def _step(part: Any, name: str, kinds: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else part
    if not isinstance(kind, str) or kind not in kinds or not isinstance(part, dict):
        raise UserError(f"field '{name}' asks for {quote(kind)}; a BERT tokenizer has one of {', '.join(kinds)}")
    return {field: part[field] for field in ("type", *kinds[kind]) if field in part}


def _layout(part: Any, ids: dict[str, int]) -> dict[str, Any]:
    """Truncation relies on BERT's layout, so there is one way to write it, and one older way."""
    ends = {token: ids.get(token) for token in ("[CLS]", "[SEP]")}
    specials = {token: {"id": token, "ids": [row], "tokens": [token]} for token, row in ends.items()}
    template = {"type": "TemplateProcessing", "single": _FIRST, "pair": _FIRST + _SECOND, "special_tokens": specials}
    older = {"type": "BertProcessing", "sep": ["[SEP]", ends["[SEP]"]], "cls": ["[CLS]", ends["[CLS]"]]}
    for known in (template, older):
        if isinstance(part, dict) and {name: part.get(name) for name in known} == known:
            return known
    raise UserError("field 'post_processor' does not put texts as [CLS] a [SEP] b [SEP], types 0 and 1, as BERT does")


def _decoder(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    if not isinstance(part, dict) or part.get("type") != "WordPiece":
        raise UserError(f"field 'decoder' is {quote(part)}; a BERT tokenizer has 'WordPiece'")
    return {
        "type": "WordPiece",
        "prefix": _prefix(part, "prefix", "decoder.prefix"),
        "cleanup": part.get("cleanup", True),
    }
