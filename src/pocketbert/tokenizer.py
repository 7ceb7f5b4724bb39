"""Text to ids: BERT's WordPiece tokenizer over the `tokenizers` library, from tokenizer.json or vocab.txt.

Truncation is done here, after the library has tokenised everything, so that what was cut can be counted; it takes
from the longer of the two texts, as the library's own "longest first" does.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from pocketbert.errors import UserError, quote
from pocketbert.files import read_json
from pocketbert.paths import require_regular_file
from pocketbert.tokenizer_file import MOST_BYTES, MOST_TOKENS, check_tokens, read_tokenizer_file
from pocketbert.vocabulary import LONGEST_WORD, SPECIAL_TOKENS, learn_vocabulary

if TYPE_CHECKING:
    from torch import Tensor

SETTINGS = "tokenizer_config.json"
MOST_SETTINGS = 4_000_000  # bytes of them: some list every added token
CHUNK = 1_024  # texts handed to the library at once: enough to keep it busy, few enough to bound memory,
CHUNK_CHARACTERS = 400_000  # or fewer, when they are long: it takes hundreds of bytes a letter
MOST_WORDS = 200_000  # whose pieces are remembered
MOST_PIECES = 20  # of a word that is remembered


@dataclass(frozen=True, eq=False)
class Encoded:
    """Many tokenised texts, in four arrays: row i is ids[starts[i]:starts[i + 1]]."""

    ids: np.ndarray  # int32, all rows one after the other
    starts: np.ndarray  # int64, one more than rows
    second_starts: np.ndarray  # int32, where in the row the second text begins; the row's length where there is none
    cut: np.ndarray  # int32, tokens that did not fit
    padding_id: int
    pairs: bool  # does any row have a second text?

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each row, special ones included."""
        return np.diff(self.starts)

    def row(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def take(self, rows: np.ndarray) -> "Encoded":
        """These rows, in this order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        from_where = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return replace(
            self, ids=self.ids[from_where], starts=starts, second_starts=self.second_starts[rows], cut=self.cut[rows]
        )

    def tensors(self, rows: Sequence[int] | np.ndarray | None = None) -> dict[str, "Tensor"]:
        """Some rows (or all) as the padded arguments of an encoder: `encoder(**encoded.tensors())`.

        Token types are there for pairs only: without them, an encoder takes every token as the first text's.
        """
        import torch

        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        width = int(lengths.max(initial=0))
        place = np.arange(width)
        mask = place < lengths[:, None]  # (B, T)
        ids = np.full(mask.shape, self.padding_id, dtype=np.int64)
        ids[mask] = self.ids[(self.starts[chosen][:, None] + place)[mask]]
        tensors = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}
        if self.pairs:
            types = (place >= self.second_starts[chosen][:, None]) & mask
            tensors["token_type_ids"] = torch.from_numpy(types.astype(np.int64))
        return tensors


class Tokenizer:
    """BERT's tokenizer. Call it with texts, or with texts and second texts; `load_tokenizer` reads a model's own.

    Args:
        backend: a `tokenizers.Tokenizer` that puts texts as [CLS] a [SEP] b [SEP].
        source: where it is from, for messages.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, source: str = "tokenizer") -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self.ids = {}
        for token in SPECIAL_TOKENS:
            found = backend.token_to_id(token)
            if found is None:
                raise UserError(f"{source}: special token '{token}' is not in the vocabulary")
            self.ids[token] = found
        self._check_template(source)
        self._word_by_word = _reads_words_alone(backend)
        self._known: dict[str, list[int]] = {}  # what is between two spaces → its pieces

    def _check_template(self, source: str) -> None:
        """Truncation relies on BERT's layout, [CLS] a [SEP] b [SEP] with types 0 and 1: see that it is this one."""
        probe = self._backend.encode("a", "b")
        cls, sep = self.ids["[CLS]"], self.ids["[SEP]"]
        if not probe.ids or probe.ids[0] != cls or probe.ids[-1] != sep or probe.ids.count(sep) != 2:
            raise UserError(f"{source}: does not put texts as [CLS] a [SEP] b [SEP], as BERT does")
        second = probe.ids.index(sep) + 1
        if probe.type_ids != [0] * second + [1] * (len(probe.ids) - second):
            raise UserError(f"{source}: does not give the second text token type 1, as BERT does")

    # -- making one ---------------------------------------------------------------------------------------------

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> "Tokenizer":
        """From tokenizer.json where there is one, else from vocab.txt (and tokenizer_config.json)."""
        folder = Path(folder)
        if os.path.lexists(folder / "tokenizer.json"):
            return cls.from_json(folder / "tokenizer.json")
        if os.path.lexists(folder / "vocab.txt"):
            return cls.from_vocabulary_file(folder / "vocab.txt", _settings(folder / SETTINGS))
        raise UserError(f"{folder}: no tokenizer.json and no vocab.txt in it")

    @classmethod
    def from_json(cls, path: Path) -> "Tokenizer":
        content = json.dumps(read_tokenizer_file(path))
        try:
            backend = tokenizers.Tokenizer.from_str(content)
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{path}: not a tokenizer: {quote(str(error))}") from error
        return cls(backend, source=str(path))

    @classmethod
    def from_vocabulary_file(cls, path: Path, settings: dict[str, Any] | None = None) -> "Tokenizer":
        """From a vocab.txt, one token per line. Cased or not: `do_lower_case` says; without it, the tokens tell."""
        tokens = _vocabulary_lines(path)
        seen: dict[str, int] = {}
        for number, token in enumerate(tokens, start=1):
            if token in seen:
                raise UserError(
                    f"{path}: line {number} repeats line {seen[token]}, {quote(token)}; each token is one row"
                )
            seen[token] = number
        settings = settings or {}
        for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
            if not isinstance(settings.get(name), bool | None):
                found = f"field '{name}' is {quote(settings[name])}; expected true, false or null"
                raise UserError(f"{path.with_name(SETTINGS)}: {found}")
        return cls.from_tokens(
            tokens,
            lowercase=settings.get("do_lower_case"),
            strip_accents=settings.get("strip_accents"),
            split_chinese=settings.get("tokenize_chinese_chars") is not False,
            source=str(path),
        )

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[str],
        *,
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        source: str = "vocabulary",
    ) -> "Tokenizer":
        """From tokens in the order of their ids. `lowercase` None: uncased unless a token has a capital letter."""
        if lowercase is None:
            lowercase = not any(token != token.lower() for token in tokens if not token.startswith("["))
        ids = {token: row for row, token in enumerate(tokens)}
        for token in SPECIAL_TOKENS:
            if token not in ids:
                raise UserError(f"{source}: special token '{token}' is not in the vocabulary")
        backend = tokenizers.Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD))
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        backend.normalizer = BertNormalizer(
            lowercase=bool(lowercase), strip_accents=strip_accents, handle_chinese_chars=split_chinese
        )
        backend.pre_tokenizer = BertPreTokenizer()
        backend.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )
        backend.decoder = WordPieceDecoder()
        return cls(backend, source=source)

    @classmethod
    def learn(cls, texts: Iterable[str], size: int = 8_000, *, lowercase: bool = True) -> "Tokenizer":
        """With a vocabulary learned from these texts; the same texts give the same vocabulary."""
        return cls.from_tokens(learn_vocabulary(texts, size, lowercase=lowercase), lowercase=lowercase)

    # -- what it is ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    @property
    def tokens(self) -> list[str]:
        """All tokens, in the order of their ids."""
        vocabulary = self._backend.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    @property
    def padding_id(self) -> int:
        return self.ids["[PAD]"]

    def to_json(self) -> str:
        """The content of a tokenizer.json."""
        return self._backend.to_str(pretty=True)

    @cached_property
    def fingerprint(self) -> str:
        """The same for tokenizers that read every text alike."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def settings(self) -> dict[str, Any]:
        """The content of tokenizer_config.json, which other libraries read."""
        normaliser = json.loads(self._backend.to_str())["normalizer"] or {}
        return {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": bool(normaliser.get("lowercase", False)),
            "strip_accents": normaliser.get("strip_accents"),
            "tokenize_chinese_chars": bool(normaliser.get("handle_chinese_chars", True)),
            **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
        }

    # -- using it -----------------------------------------------------------------------------------------------

    def __call__(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, *, max_length: int | None = None
    ) -> Encoded:
        """Tokenise texts, or pairs of texts; rows longer than `max_length` tokens are cut and the cut is counted."""
        if isinstance(texts, str):
            raise UserError("expected a list of texts, found one text; put it in a list: [text]")
        if second_texts is not None and len(second_texts) != len(texts):
            raise UserError(f"{len(texts)} first texts but {len(second_texts)} second ones; each pair needs both")
        special = 2 if second_texts is None else 3
        if max_length is not None and max_length < special:
            raise UserError(f"max_length={max_length} leaves no room: the special tokens alone are {special}")
        cls, sep = self.ids["[CLS]"], self.ids["[SEP]"]
        flat: list[np.ndarray] = []
        lengths, starts_second, cuts = (np.zeros(len(texts), dtype=np.int32) for _ in range(3))
        for begin, end in spans(texts, second_texts):
            firsts = self._pieces(texts[begin:end], begin)
            others = None if second_texts is None else self._pieces(second_texts[begin:end], begin)
            rows = []
            for index, first in enumerate(firsts):
                row = [cls, *first, sep]
                second = len(row)
                if others is not None:
                    row += [*others[index], sep]
                if max_length is not None and len(row) > max_length:
                    cuts[begin + index] = len(row) - max_length
                    row, second = _truncate(row, second, max_length)
                rows.append(row)
                lengths[begin + index], starts_second[begin + index] = len(row), second
            flat.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(map(len, rows))))
        return Encoded(
            ids=np.concatenate(flat) if flat else np.zeros(0, dtype=np.int32),
            starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            second_starts=starts_second,
            cut=cuts,
            padding_id=self.padding_id,
            pairs=second_texts is not None,
        )

    def _pieces(self, texts: Sequence[str], begin: int) -> list[list[int]]:
        """The word pieces of each text, without special tokens."""
        try:
            if not self._word_by_word:
                return self._encode(texts)
            split = [text.split(" ") for text in texts]
            known = self._known if len(self._known) <= MOST_WORDS else {}
            here = {word: known.get(word) for words in split for word in words}  # threads may share a tokenizer
            new = [word for word, found in here.items() if found is None]
            learned = dict(zip(new, self._encode(new), strict=True))
            here.update(learned)
            self._known = known
            short = (item for item in learned.items() if len(item[0]) <= LONGEST_WORD and len(item[1]) <= MOST_PIECES)
            known.update(short)
            pieces = [[piece for word in words for piece in here[word]] for words in split]  # type: ignore[union-attr]
        except (TypeError, AttributeError) as error:
            raise UserError(f"texts {begin} to {begin + len(texts) - 1}: not all of them are text: {error}") from None
        return pieces

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of these ids, without [CLS], [SEP] and [PAD] unless they are asked for."""
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=skip_special)


def _vocabulary_lines(path: Path) -> list[str]:
    """The tokens of a vocab.txt, a line each. Its size is looked at before anything is read."""
    size = require_regular_file(path).st_size
    if size > MOST_BYTES:
        raise UserError(f"{path}: {size:,} bytes; a vocabulary here is at most {MOST_BYTES:,}")
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
        if text.count("\n") > MOST_TOKENS:
            raise UserError(f"more than {MOST_TOKENS:,} lines; each is a token, and no vocabulary has so many")
        tokens = [line.rstrip("\r") for line in text.split("\n")] if text else []
        check_tokens(tokens)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read the vocabulary: {error}") from error
    return tokens


def _settings(path: Path) -> dict[str, Any]:
    """A tokenizer_config.json; a folder may have none."""
    content = read_json(path, most_bytes=MOST_SETTINGS) if os.path.lexists(path) else {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def spans(texts: Sequence[str], second_texts: Sequence[str] | None = None) -> Iterator[tuple[int, int]]:
    """Where to cut many texts so that no part has too many of them, or too many characters."""
    begin = held = 0
    for row, text in enumerate(texts):
        pair = (text,) if second_texts is None else (text, second_texts[row])
        size = sum(len(it) for it in pair if isinstance(it, str))  # what is no text is refused later
        if row > begin and (row - begin >= CHUNK or held + size > CHUNK_CHARACTERS):
            yield begin, row
            begin, held = row, 0
        held += size
    if begin < len(texts):
        yield begin, len(texts)


def _reads_words_alone(backend: tokenizers.Tokenizer) -> bool:
    """Are a text's pieces those of its words, one after the other? So it is with BERT's own normaliser and splitter.

    Then a word is cut into pieces once, and looked up when it comes again: several times faster on real text.
    """
    berts = isinstance(backend.normalizer, BertNormalizer) and isinstance(backend.pre_tokenizer, BertPreTokenizer)
    return berts and not any(" " in token.content for token in backend.get_added_tokens_decoder().values())


def _truncate(row: list[int], second: int, max_length: int) -> tuple[list[int], int]:
    """Cut a row to max_length, from the longer text first; the special tokens stay."""
    if second == len(row):
        return [*row[: max_length - 1], row[-1]], max_length
    first_length, second_length = second - 2, len(row) - second - 1
    room = max_length - 3
    shorter = min(first_length, second_length)
    if shorter > room // 2:  # both must give: half each, the odd one to the longer
        kept_short = room // 2
    else:
        kept_short = shorter
    kept_long = room - kept_short
    keep_first, keep_second = (kept_short, kept_long) if first_length <= second_length else (kept_long, kept_short)
    return [*row[: 1 + keep_first], *row[second - 1 : second + keep_second], row[-1]], keep_first + 2
