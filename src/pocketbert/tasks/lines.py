"""Lines of a text file, read in bounded memory: gzip or plain, any encoding, and errors that say where.

Lines end at a newline and nowhere else: `str.splitlines` would also cut at the exotic separators that real
reviews contain. A line longer than the limit is refused before it is held whole, and so is a file that unpacks to
blank lines without end.
"""

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pocketbert.errors import UserError, quote
from pocketbert.paths import require_regular_file

MOST_IN_A_FIELD = 10_000_000  # characters
MOST_IN_A_LINE = 20_000_000  # bytes: one full field, its neighbours, and multi-byte letters
MOST_BLANK = 64_000_000  # characters of blank lines, one after the other; each counts as 64 more, for its time
NAME_IT = "name its encoding with --encoding (latin-1, cp1252, utf-16), or save it again as UTF-8"
HEAD = 1 << 20  # bytes, from which a format is guessed

# Python calls these encodings too; no file of texts is written in them.
NO_ENCODINGS_OF_FILES = {"utf-7", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into what a person can do about it."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: this is a folder; name a file") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{path}: the gzip data is damaged or cut short ({error}); get or make the file again"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror or error}") from error


class SharedFile:
    """A file that is opened once, however often one looks into it: its format, its columns and its rows are one file's.

    Every stream has a place of its own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def stream(self) -> IO[bytes]:
        """The bytes from the beginning, unpacked if they are gzip, whatever the name says."""
        require_regular_file(self.path)
        if self._handle is None or not hasattr(os, "pread"):
            self.close()
            self._handle = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        raw = io.BufferedReader(_Positioned(self, self._handle), 1 << 16)
        return gzip.GzipFile(fileobj=raw, mode="rb") if raw.peek(2)[:2] == b"\x1f\x8b" else raw  # type: ignore[return-value]

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


class _Positioned(io.RawIOBase):
    """Reads an open file from a place of its own."""

    def __init__(self, owner: SharedFile, handle: int) -> None:
        self._owner, self._handle, self._place = (
            owner,
            handle,
            0,
        )  # it closes the file with its last user

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: os.fstat(self._handle).st_size}[whence]
        self._place = begin + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        if hasattr(os, "pread"):
            data = os.pread(self._handle, len(buffer), self._place)
        else:  # Windows, where every stream opens the file anew
            os.lseek(self._handle, self._place, os.SEEK_SET)
            data = os.read(self._handle, len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def head(file: SharedFile, size: int = HEAD) -> bytes:
    """The first bytes, for guessing a format."""
    with reading(file.path), file.stream() as stream:
        return stream.read(size)


def known_encoding(name: str) -> str:
    """The name, if it is an encoding that a file of texts can have."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        found = None
    # Python's own flag for codecs from text to bytes: base64, hex, zip and rot13 are none.
    if found is None or not found._is_text_encoding or found.name.replace("_", "-") in NO_ENCODINGS_OF_FILES:
        raise UserError(f"unknown encoding {quote(name)}; try utf-8, latin-1, cp1252 or utf-16")
    return name


def read_lines(
    file: SharedFile | Path, encoding: str = "utf-8", *, most_bytes: int = MOST_IN_A_LINE, advice: str = NAME_IT
) -> Iterator[tuple[int, str]]:
    """(line number, line with its end) for each line of the file.

    `most_bytes` of a line are read; `advice` is what to do about a file in another encoding.
    """
    file = file if isinstance(file, SharedFile) else SharedFile(file)
    path = file.path
    bytewise = "\n".encode(known_encoding(encoding)) == b"\n"
    blank = 0
    with reading(path), file.stream() as stream:
        lines = (_decoded if bytewise else _wide)(path, stream, encoding, most_bytes, advice)
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise UserError(
                    f"{path}: line {number} has a NUL character (position {line.index(chr(0)) + 1}); this is not a "
                    "text file, or it is damaged or in another encoding: save it again as UTF-8 text"
                )
            blank = blank + len(line) + 64 if line.isspace() else 0
            if blank > MOST_BLANK:
                raise UserError(
                    f"{path}: up to line {number} there are nothing but blank lines for too long; "
                    "is this the right file? Remove them"
                )
            yield number, line


def _too_long(path: Path, number: int, most_bytes: int) -> UserError:
    return UserError(
        f"{path}: line {number} is longer than {most_bytes // 1_000_000} MB; is it one row per line? "
        "Split the row, or shorten its text: a model reads only the first words of it"
    )


def _decoded(path: Path, file: IO[bytes], encoding: str, most_bytes: int, advice: str) -> Iterator[str]:
    """Line by line in bytes, so that a wrong byte can be named with its line."""
    number = 0
    while data := file.readline(most_bytes + 1):
        number += 1
        if len(data) > most_bytes:
            raise _too_long(path, number, most_bytes)
        if number == 1 and data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        try:
            yield data.decode(encoding)
        except UnicodeDecodeError as error:
            if number == 1 and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise UserError(f"{path}: this looks like UTF-16; {advice}") from None
            raise UserError(
                f"{path}: line {number}, byte {error.start + 1} is 0x{data[error.start]:02X}, which is not {encoding}; "
                f"{advice}"
            ) from None


def _wide(path: Path, file: IO[bytes], encoding: str, most_bytes: int, advice: str) -> Iterator[str]:
    """Encodings such as UTF-16, whose line ends are not one byte."""
    number = 0
    with io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
        while True:
            number += 1
            try:
                line = text.readline(most_bytes + 1)
            except UnicodeError as error:
                raise UserError(f"{path}: near line {number}: not {encoding}: {error}; {advice}") from None
            if not line:
                return
            if len(line) > most_bytes:
                raise _too_long(path, number, most_bytes)
            yield line
