"""The tokenised corpus: flat arrays on disk, memory-mapped, built in one pass and used again.

A corpus folder holds all ids one after the other, where each sentence begins in them, which sentence each document
begins with, which documents are held out, and the tokenizer. It is named after a fingerprint of the texts and of how
they were cut up: the same texts and tokenizer are never read twice.

Held out are whole documents, by a hash of their text: a document stays on its side when others are added, and two
copies of one never part.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError
from pocketbert.files import new_folder, read_json, remove_leftovers, write_json, write_text
from pocketbert.loading import load_tokenizer
from pocketbert.locks import lock
from pocketbert.pretraining.text import kind_of, read_documents
from pocketbert.tokenizer import Tokenizer

FORMAT = 2  # raised when the same texts would give other arrays
CHUNK = 2_000_000  # characters tokenised at once
LEAST_HELD = 2  # documents: a negative next sentence comes from another one

Say = Callable[[str], None]


@dataclass(frozen=True)
class Reading:
    """How texts become a corpus. Everything here is part of its fingerprint."""

    fields: tuple[str, ...] = ("text",)  # of JSON lines: the first one that is there
    vocabulary: str | None = None  # a model's name, a folder or a vocab.txt; None: learn one
    vocabulary_size: int = 12_000
    vocabulary_sample: int = 30_000_000  # characters to learn it from, at most
    lowercase: bool = True
    held_out: float = 0.01  # share of the documents


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentence s is ids[starts[s]:starts[s + 1]]; document d is the sentences firsts[d] to firsts[d + 1]."""

    ids: np.ndarray  # uint16 or uint32, on disk
    starts: np.ndarray  # int64, one more than sentences, on disk
    firsts: np.ndarray  # int64, one more than documents
    held: np.ndarray  # bool, a document each
    tokenizer: Tokenizer
    metadata: dict[str, Any]
    name: str  # tells it from all others

    def documents(self, *, held: bool) -> np.ndarray:
        """The numbers of the documents of one side."""
        return np.flatnonzero(self.held == held)

    def sentence(self, number: int) -> np.ndarray:
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def word_counts(self) -> np.ndarray:
        """How often each token is in the training side."""
        counts = np.zeros(len(self.tokenizer), dtype=np.int64)
        for begin in range(0, len(self.ids), 2**22):
            counts += np.bincount(self.ids[begin : begin + 2**22], minlength=len(counts))
        for document in self.documents(held=True):
            first, last = self.starts[self.firsts[document]], self.starts[self.firsts[document + 1]]
            counts -= np.bincount(self.ids[first:last], minlength=len(counts))
        return counts


def word_shares(counts: np.ndarray) -> np.ndarray:
    """Probabilities of words by their counts, with one more for each, so that none is impossible."""
    return (counts + 1) / (counts.sum() + len(counts))


def fingerprint_texts(files: Sequence[Path]) -> str:
    """A hash of the files' bytes and kinds; their names and places do not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        try:
            with path.open("rb") as file:
                digest.update(f"{kind_of(path)} ".encode() + hashlib.file_digest(file, "blake2b").digest())
        except OSError as error:
            raise UserError(f"{path}: cannot read: {error.strerror}") from None
    return digest.hexdigest()


def open_corpus(
    files: Sequence[Path], reading: Reading, cache: Path, *, seed: int = 0, say: Say | None = None
) -> Corpus:
    """The corpus of these texts: found in `cache`, or built there. `seed` draws a vocabulary's sample."""
    given = None if reading.vocabulary is None else given_tokenizer(reading.vocabulary)
    spelled = f"learn {reading.vocabulary_size} {reading.vocabulary_sample} {reading.lowercase} {seed}"
    parts = (FORMAT, fingerprint_texts(files), reading.fields, reading.held_out, given.to_json() if given else spelled)
    name = hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
    folder = cache / f"corpus-{name}"
    if not (folder / "corpus.json").is_file():
        with lock(cache, wait=6 * 3_600, say=say):
            remove_leftovers(cache)
            if not (folder / "corpus.json").is_file():
                tokenizer = given or _learn_tokenizer(files, reading, seed, say)
                with new_folder(folder, overwrite=True) as part:
                    _build(files, reading, tokenizer, part, say)
    return _open(folder)


def _open(folder: Path) -> Corpus:
    metadata = read_json(folder / "corpus.json")
    arrays = {}
    for name, kind in (("ids", metadata["kind"]), ("starts", "<i8"), ("firsts", "<i8"), ("held", "|b1")):
        try:
            arrays[name] = np.memmap(folder / name, dtype=kind, mode="r")
        except (OSError, ValueError) as error:
            raise UserError(f"{folder}: damaged ({name}: {error}); remove it, it will be built again") from None
    sizes = (metadata["tokens"], metadata["sentences"] + 1, metadata["documents"] + 1, metadata["documents"])
    if tuple(map(len, arrays.values())) != sizes:
        raise UserError(f"{folder}: damaged (arrays of other sizes); remove this folder, it will be built again")
    firsts, held = np.array(arrays["firsts"]), np.array(arrays["held"])
    return Corpus(arrays["ids"], arrays["starts"], firsts, held, Tokenizer.from_folder(folder), metadata, folder.name)


def given_tokenizer(name: str) -> Tokenizer:
    """The one of a model, a folder or a vocab.txt."""
    if Path(name).is_file():
        return Tokenizer.from_vocabulary_file(Path(name))
    return load_tokenizer(name)


def _learn_tokenizer(files: Sequence[Path], reading: Reading, seed: int, say: Say | None) -> Tokenizer:
    """From a sample of whole documents: those with the lowest hashes, salted with the seed, up to so many characters.

    The sample is thinned whenever it has grown to twice its size, so memory stays bounded and every document had the
    same chance.
    """
    if say is not None:
        say(f"learning a vocabulary of {reading.vocabulary_size:,}")
    salt = seed.to_bytes(8, "little")
    kept: list[tuple[int, str]] = []  # (hash, text)
    total, limit = 0, 2**64
    for sentences in read_documents(files, reading.fields):
        text = "\n".join(sentences)
        rank = _hash(text, salt)
        if rank >= limit:
            continue
        kept.append((rank, text[: reading.vocabulary_sample]))
        total += len(kept[-1][1])
        if total > 2 * reading.vocabulary_sample:
            kept.sort()
            while len(kept) > 1 and total > reading.vocabulary_sample:
                total -= len(kept[-1][1])
                limit = kept.pop()[0]
    kept.sort()
    chosen, length = [], 0
    for _, text in kept:
        if length and length + len(text) > reading.vocabulary_sample:
            break
        chosen.append(text)
        length += len(text)
    if not chosen:
        raise UserError(_nothing(files))
    return Tokenizer.learn(chosen, reading.vocabulary_size, lowercase=reading.lowercase)


def _build(files: Sequence[Path], reading: Reading, tokenizer: Tokenizer, part: Path, say: Say | None) -> None:
    """One pass over the texts; ids go to the disk as they come."""
    kind = "<u2" if len(tokenizer) <= 2**16 else "<u4"
    starts, firsts, hashes = array("q", [0]), array("q", [0]), array("Q")
    told = 0
    with (part / "ids").open("wb") as file:
        for documents in _chunks(read_documents(files, reading.fields), CHUNK):
            texts = [sentence for sentences in documents for sentence in sentences]
            encoded = tokenizer(texts)
            lengths = encoded.lengths - 2  # without [CLS] and [SEP]
            inside = np.ones(len(encoded.ids), dtype=bool)
            inside[encoded.starts[:-1]] = inside[encoded.starts[1:] - 1] = False
            encoded.ids[inside].astype(kind).tofile(file)
            begin = 0
            for sentences in documents:
                own = lengths[begin : begin + len(sentences)]
                begin += len(sentences)
                own = own[own > 0]
                if not len(own):
                    continue
                starts.extend((starts[-1] + np.cumsum(own)).tolist())
                firsts.append(len(starts) - 1)
                hashes.append(_hash("\n".join(sentences).lower()))
            if say is not None and starts[-1] - told > 10_000_000:
                told = starts[-1]
                say(f"tokenised {told / 1e6:,.0f} million tokens")
    if len(firsts) < 2:
        raise UserError(_nothing(files))
    _refuse_too_little(files, len(set(hashes)), len(starts) - 1)
    held = _held_out(np.array(hashes, dtype=np.uint64), reading.held_out)
    np.array(starts, dtype="<i8").tofile(part / "starts")
    np.array(firsts, dtype="<i8").tofile(part / "firsts")
    held.tofile(part / "held")
    write_text(part / "tokenizer.json", tokenizer.to_json() + "\n")
    metadata = {
        "format": FORMAT,
        "kind": kind,
        "tokens": starts[-1],
        "sentences": len(starts) - 1,
        "documents": len(firsts) - 1,
        "held_out_documents": int(held.sum()),
        "vocabulary": len(tokenizer),
        "lowercase": bool(tokenizer.settings()["do_lower_case"]),
        "files": [{"name": path.name, "bytes": path.stat().st_size} for path in files],
    }
    write_json(part / "corpus.json", metadata)


def _held_out(hashes: np.ndarray, share: float) -> np.ndarray:
    """The documents with the lowest hashes, copies with them: the share asked for, but at least two different ones."""
    different, copies = np.unique(hashes, return_counts=True)  # sorted
    enough = int(np.searchsorted(np.cumsum(copies), round(share * len(hashes)))) + 1
    last = min(max(LEAST_HELD, enough), len(different) - LEAST_HELD) - 1
    return hashes <= different[last]


def _refuse_too_little(files: Sequence[Path], documents: int, sentences: int) -> None:
    if sentences < 2:
        raise UserError(f"{files[0]}: one line of text is no corpus; give many sentences of many documents")
    if documents < 2 * LEAST_HELD:
        raise UserError(
            f"{_named(files)}: {documents} different documents; at least {2 * LEAST_HELD} are needed, some are held "
            f"out whole. Give more files, JSON lines, or part documents by two blank lines"
        )


def _nothing(files: Sequence[Path]) -> str:
    return f"{_named(files)}: an empty corpus: no sentence in it"


def _named(files: Sequence[Path]) -> str:
    return f"{files[0]}{' and others' if len(files) > 1 else ''}"


def _hash(text: str, salt: bytes = b"") -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8, salt=salt).digest(), "little")


def _chunks(documents: Iterator[list[str]], characters: int) -> Iterator[list[list[str]]]:
    chunk, length = [], 0
    for sentences in documents:
        chunk.append(sentences)
        length += sum(map(len, sentences))
        if length >= characters:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk
