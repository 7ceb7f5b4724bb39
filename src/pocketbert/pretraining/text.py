"""Raw text to documents, and documents to clean sentences; never more than one document in memory.

Files: .txt, JSON lines, either gzipped, and folders of these. A JSON line is a document. A .txt file is cut into
documents at two blank lines, and at the end of a paragraph once a document is long, so that one huge file is read in
little memory and still gives documents to tell apart.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from pocketbert.errors import UserError
from pocketbert.tasks.lines import read_lines

TEXT, JSON_LINES = (".txt", ".text"), (".jsonl", ".ndjson")
CONVERT_IT = "convert the file, for example: iconv -f latin1 -t utf-8"
LONG_DOCUMENT = 20_000  # characters after which a .txt document ends at its next paragraph
LONGEST_LINE = 64 * 2**20  # bytes; a longer line is no text
LONGEST_SENTENCE = 600  # characters; a longer one is cut, so that all of it is read
HARD_WRAPPED = 100  # lines that were cut to a page's width are at most so wide

# After these, a full stop and a capital do not end a sentence.
_WORDS = """
    mr mrs ms messrs dr prof rev hon pres gov sen rep gen col maj capt cpt cmdr lt sgt st mt ft jr sr co corp inc ltd
    bros vs no nos vol fig ch sec art al eg ie e.g i.e cf viz approx est dept jan feb mar apr jun jul aug sep sept oct
    nov dec
"""
ABBREVIATIONS = frozenset(_WORDS.split())
_BREAK = re.compile(r"<\s*+(?:br|/?p)\s*+/?\s*+>", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’)\]]*+\s++(?=["'“‘(\[`$£€]*+(\w))|[。！？]++["'”’」』）]*+\s*+(?=\S)""")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]")
_NO_CONTROLS = {code: None if code else " " for code in [*range(0x20), *range(0x7F, 0xA0), 0xAD, 0xFEFF]}
_NO_CONTROLS.update({ord("\t"): " ", ord("\n"): "\n", ord("\r"): "\n", ord("\v"): "\n", ord("\f"): "\n", 0x85: "\n"})


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files of a corpus, in a fixed order: as given, folders sorted through and through."""
    found: list[Path] = []
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and kind_of(file) is not None)
            if not inside:
                raise UserError(f"{path}: no .txt, .jsonl or .gz of these in this folder")
            found += inside
        elif not path.is_file():
            raise UserError(f"{path}: no such file or folder")
        elif kind_of(path) is None:
            raise UserError(f"{path}: a corpus is .txt, .jsonl (JSON lines) or .gz of these; rename or convert it")
        else:
            found.append(path)
    if not found:
        raise UserError("no corpus: name at least one file or folder of text")
    return found


def kind_of(path: Path) -> str | None:
    """What a name promises: "text", "json" or nothing we read."""
    name = path.name.lower().removesuffix(".gz")
    return "text" if name.endswith(TEXT) else "json" if name.endswith(JSON_LINES) else None


def read_documents(files: Sequence[Path], fields: Sequence[str] = ("text",)) -> Iterator[list[str]]:
    """The sentences of each document, file after file. Documents without a sentence are left out."""
    for path in files:
        for document in _documents(path, fields):
            sentences = split_document(document)
            if sentences:
                yield sentences


def _documents(path: Path, fields: Sequence[str]) -> Iterator[str]:
    if kind_of(path) == "json":
        yield from _json_documents(path, fields)
        return
    lines: list[str] = []
    length = blank = 0
    for _, line in _lines(path):
        if line.strip():
            if (blank >= 2 or (blank and length >= LONG_DOCUMENT)) and lines:
                yield "\n".join(lines)
                lines, length = [], 0
            blank = 0
        else:
            blank += 1
        if blank <= 2:
            lines.append(line)
        length += len(line)
        # Files without blank lines (a sentence per line, a text per line) have to end somewhere, too.
        if length >= 4 * LONG_DOCUMENT:
            yield "\n".join(lines)
            lines, length = [], 0
    if lines:
        yield "\n".join(lines)


def _json_documents(path: Path, fields: Sequence[str]) -> Iterator[str]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: line {number}: expected a JSON object with field '{fields[0]}'")
        field = next((name for name in fields if name in row), None)
        if field is None:
            asked = " or ".join(f"'{name}'" for name in fields)
            raise UserError(f"{path}: line {number} has no field {asked}; it has: {', '.join(row)}; name it (--field)")
        text = row[field]
        if text is None:
            continue
        if not isinstance(text, str):
            raise UserError(f"{path}: line {number}: field '{field}' is no text but {type(text).__name__}")
        # JSON may hold halves of characters that UTF-8 cannot.
        yield text.encode("utf-8", "replace").decode("utf-8")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line without its end); a book may be one line."""
    for number, line in read_lines(path, most_bytes=LONGEST_LINE, advice=CONVERT_IT):
        yield number, line.rstrip("\r\n")


# -- sentences -------------------------------------------------------------------------------------------------------


def split_document(text: str) -> list[str]:
    """Clean sentences, in order. What has no letter or digit in it (rules, page ornaments) is none."""
    sentences = []
    for paragraph in paragraphs(text):
        sentences += [part for part in split_sentences(paragraph) if any(map(str.isalnum, part))]
    return sentences


def paragraphs(text: str) -> Iterator[str]:
    """Blank lines part paragraphs; inside, lines that a page's width broke are joined again."""
    text = _BREAK.sub("\n\n", text).translate(_NO_CONTROLS)
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield from _unwrap(block)
            block = []


def _unwrap(block: list[str]) -> Iterator[str]:
    """A break is a page's doing when the next word would not have fitted in the block's width, or has no capital.

    So prose is joined, and verses, lists and headings, whose lines end early, are not.
    """
    width = max(map(len, block))
    whole = block[0]
    for before, line in pairwise(block):
        word = line.split(None, 1)[0]
        indented = line[0].isspace() and not before[0].isspace()
        broken = len(before) + 1 + len(word) > width - 2 or word[0].islower()
        if width <= HARD_WRAPPED and broken and not indented:
            whole += " " + line
        else:
            yield _SPACES.sub(" ", whole).strip()
            whole = line
    yield _SPACES.sub(" ", whole).strip()


def split_sentences(paragraph: str) -> list[str]:
    """Cut after . ! ? … where no small letter follows; not after titles, initials, list numbers.

    In a paragraph without capitals, a small letter may begin a sentence, too.
    """
    sentences, begin = [], 0
    has_capitals = any(map(str.isupper, paragraph))
    for match in _END.finditer(paragraph):
        following = match[1] or ""
        if has_capitals and following.islower():
            continue
        if match.group()[0] == "." and _goes_on(paragraph[begin : match.start()], paragraph[match.end()]):
            continue
        sentences += _cut(paragraph[begin : match.end()].strip())
        begin = match.end()
    return sentences + _cut(paragraph[begin:].strip())


def _cut(sentence: str) -> list[str]:
    """A sentence as it is; one too long to be a sentence in pieces, cut at spaces where there are any."""
    pieces = []
    while len(sentence) > LONGEST_SENTENCE:
        place = sentence.rfind(" ", LONGEST_SENTENCE // 2, LONGEST_SENTENCE)
        place = place if place > 0 else LONGEST_SENTENCE
        pieces.append(sentence[:place].strip())
        sentence = sentence[place:].strip()
    return [*pieces, sentence] if sentence else pieces


def _goes_on(before: str, following: str) -> bool:
    """Is this full stop part of a word: Mr., J. R., U.S., e.g., No. 5, or "3." in front of a list's line?"""
    word = before[before.rfind(" ") + 1 :].lstrip("\"'“‘([`")
    if not word:  # a free-standing full stop, as in tokenised text
        return False
    if word.lower() in ABBREVIATIONS:
        # "No." is a word of its own unless a number follows.
        return word.lower() not in ("no", "nos", "art", "ch", "fig", "sec", "vol") or following.isdigit()
    if _INITIALS.fullmatch(word) and word != "I":
        return True
    return word.isdigit() and word == before.strip()
