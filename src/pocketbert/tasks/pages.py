"""The pages of a Parquet file, sized up before they are unpacked.

A file of a kilobyte may hold a page that unpacks to gigabytes, and what its footer says of sizes need not be true.
What the reader of Parquet will allocate stands in the header in front of each page, so these are read here first.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from pocketbert.errors import UserError
from pocketbert.tasks.thrift import NotThrift, read_structure

MOST_IN_A_FOOTER = 2_000_000  # bytes that describe the columns and groups of rows
MOST_IN_A_PAGE = 64_000_000  # bytes, unpacked
MOST_WORDS = 2_000_000  # values of a dictionary: each costs its reader some forty bytes
MOST_LENGTHS = 5_000_000  # values of a page whose lengths are all unpacked at once
WORD = 16  # bytes that any value takes at least

PLAIN, DELTA_LENGTHS, DELTA_STRINGS = 0, 6, 7  # encodings
DICTIONARY_CODED = (2, 8)
STRINGS = 6  # the type of a column
PACKINGS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_OTHER_SHAPE = (LookupError, TypeError, AttributeError)  # a field is missing, or is not what it should be

Unpack = Callable[[str | None, bytes, int], bytes]  # (packing, data, size) → the bytes of a page


@dataclass
class Pages:
    """What the pages of one column say, in one group of rows."""

    values: int = 0  # those of lists too: not rows
    largest: int = WORD  # bytes that a value takes at most, about, if all values are written out
    all_coded: bool = True  # are all values numbers into a dictionary, which the reader of Parquet can leave so?

    def add(self, header: dict[int, Any]) -> None:
        values, encoding = _values(header), _encoding(header)
        self.values += values
        if encoding not in DICTIONARY_CODED:
            self.all_coded = False
            # A value may repeat the whole of the one before, in the encoding that is made for it.
            size = header[2] if encoding == DELTA_STRINGS else header[2] // max(1, values)
            self.largest = max(self.largest, size)


def read_footer(path: object, file: IO[bytes]) -> list[list[dict[int, Any]]]:
    """For each group of rows, what the footer says of each column: numbers, by the numbers of their fields.

    The library's own way to these numbers ends the whole process where some of them are wrong.
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - 8))
    length = int.from_bytes(file.read(4), "little")
    if file.read(4) != b"PAR1":
        raise UserError(f"{path}: not a Parquet file that can be read: it does not end as one does")
    if length > MOST_IN_A_FOOTER:
        raise UserError(
            f"{path}: its footer is {length:,} bytes; at most {MOST_IN_A_FOOTER:,} are read: write the file again with "
            "fewer columns and fewer, larger groups of rows"
        )
    file.seek(max(0, end - 8 - length))
    try:
        groups = read_structure(io.BytesIO(file.read(length))).get(4, [])
        return [[column[3] for column in group[1]] for group in groups]
    except (NotThrift, *_OTHER_SHAPE) as error:
        raise UserError(f"{path}: not a Parquet file that can be read, or a damaged one: its footer: {error}") from None


def look_at_pages(file: IO[bytes], where: str, column: dict[int, Any], unpack: Unpack) -> Pages:
    """Read the headers of the pages of a column; a page that is too large to unpack is an error."""
    pages = Pages()
    begin = column.get(9, 0)
    if 0 < column.get(11, 0) < begin:
        begin = column[11]  # the dictionary
    while pages.values < column.get(5, 0):
        try:
            file.seek(begin)
            header = read_structure(file)
            packed, size = int(header[3]), int(header[2])
            begin = file.tell() + packed
            _refuse(header, where)
            if 7 not in header:
                pages.add(header)
            elif column.get(1) == STRINGS:
                strings = unpack(PACKINGS.get(column.get(4, 0), "unknown"), file.read(packed), size)
                pages.largest = max(pages.largest, _longest(_values(header), strings))
        except (NotThrift, OverflowError, OSError, *_OTHER_SHAPE):
            raise UserError(f"{where}: the header of a page is damaged; get or make the file again") from None
    return pages


def _refuse(header: dict[int, Any], where: str) -> None:
    size, values = header[2], _values(header)
    most = None
    if not 0 <= size <= MOST_IN_A_PAGE or header[3] < 0:
        most = f"a page of {size:,} bytes; at most {MOST_IN_A_PAGE:,}"
    elif values < 0 or (7 in header and values > min(MOST_WORDS, size)):
        most = f"a dictionary of {values:,} values in {size:,} bytes; at most {MOST_WORDS:,}"
    elif _encoding(header) in (DELTA_LENGTHS, DELTA_STRINGS) and values > MOST_LENGTHS:
        most = f"a page of {values:,} values; at most {MOST_LENGTHS:,}"
    if most is not None:
        raise UserError(f"{where} has {most} are read: write the file again with smaller pages, or as CSV")


def _longest(count: int, strings: bytes) -> int:
    """Bytes of the longest string of a dictionary: each stands behind its length."""
    place = longest = 0
    for _ in range(count):
        length = int.from_bytes(strings[place : place + 4], "little")
        place += 4 + length
        longest = max(longest, length)
    return longest


def _values(header: dict[int, Any]) -> int:
    """How many there are: of a page of data of the first version, of a dictionary, of the second version."""
    return next((int(header[field][1]) for field in (5, 7, 8) if field in header), 0)


def _encoding(header: dict[int, Any]) -> int:
    return next((header[field].get(place, PLAIN) for field, place in ((5, 2), (8, 4)) if field in header), PLAIN)
