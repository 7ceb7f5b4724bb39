"""The pages of a Parquet file, sized up before they are unpacked.

A file of a kilobyte may hold a page that unpacks to gigabytes, and what its footer says of sizes need not be true.
What the reader of Parquet will allocate stands in the header in front of each page, so these are read here first:
they are a few numbers in Thrift's compact protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from pocketbert.errors import UserError

MOST_IN_A_PAGE = 64_000_000  # bytes, unpacked
MOST_WORDS = 2_000_000  # values of a dictionary: each costs its reader some forty bytes
MOST_LENGTHS = 5_000_000  # values of a page whose lengths are all unpacked at once
WORD = 16  # bytes that any value takes at least

PLAIN, DELTA_LENGTHS, DELTA_STRINGS = 0, 6, 7  # encodings
DICTIONARY_CODED = (2, 8)
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12  # Thrift's types


@dataclass
class Pages:
    """What the pages of one column say, in one group of rows."""

    values: int = 0  # those of lists too: not rows
    largest: int = WORD  # bytes that a value takes at most, about, if all values are written out
    all_coded: bool = True  # are all values numbers into a dictionary, which the reader of Parquet can leave so?

    def add(self, header: dict[int, Any]) -> None:
        size = header.get(2, 0)
        values, encoding = _values(header), _encoding(header)
        self.values += values
        if encoding in DICTIONARY_CODED:
            return
        self.all_coded = False
        # A value may repeat the whole of the one before, in the encoding that is made for it.
        self.largest = max(self.largest, size if encoding == DELTA_STRINGS else size // max(1, values))


def look_at_pages(
    file: IO[bytes], where: str, begin: int, end: int, unpack: Callable[[bytes, int], bytes] | None = None
) -> Pages:
    """Read the headers from `begin` to `end`; a page that is too large to unpack is an error.

    `unpack(data, size)` gives the bytes of a page: for a column of strings, whose dictionary is looked through.
    """
    pages = Pages()
    while begin < end:
        file.seek(begin)
        try:
            header = _struct(file)
        except (EOFError, RecursionError, ValueError):
            break  # not a header: the reader of Parquet will say so
        packed = header.get(3, 0)
        if not isinstance(packed, int) or packed < 0 or not isinstance(header.get(2, 0), int):
            break
        _refuse(header, where)
        begin = file.tell() + packed
        if 7 in header:
            longest = 0 if unpack is None else _longest(_values(header), unpack(file.read(packed), header.get(2, 0)))
            pages.largest = max(pages.largest, longest)
        else:
            pages.add(header)
    return pages


def _refuse(header: dict[int, Any], where: str) -> None:
    size, values = header.get(2, 0), _values(header)
    most = None
    if not 0 <= size <= MOST_IN_A_PAGE:
        most = f"a page of {size:,} bytes; at most {MOST_IN_A_PAGE:,}"
    elif 7 in header and not 0 <= values <= min(MOST_WORDS, max(1, size)):
        most = f"a dictionary of {values:,} values in {size:,} bytes; at most {MOST_WORDS:,}"
    elif _encoding(header) in (DELTA_LENGTHS, DELTA_STRINGS) and not 0 <= values <= MOST_LENGTHS:
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
    for field in (5, 7, 8):
        if isinstance(header.get(field), dict):
            found = header[field].get(1, 0)
            return found if isinstance(found, int) else 0
    return 0


def _encoding(header: dict[int, Any]) -> int:
    for field, place in ((5, 2), (8, 4)):  # first and second version of a page of data
        if isinstance(header.get(field), dict):
            return header[field].get(place, PLAIN)
    return PLAIN


# ------------------------------------------------------------ Thrift's compact protocol


def _byte(file: IO[bytes]) -> int:
    data = file.read(1)
    if not data:
        raise EOFError
    return data[0]


def _unsigned(file: IO[bytes]) -> int:
    value = shift = 0
    while True:
        byte = _byte(file)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 63:
            raise ValueError("a number too long")


def _signed(file: IO[bytes]) -> int:
    value = _unsigned(file)
    return (value >> 1) ^ -(value & 1)


def _struct(file: IO[bytes], depth: int = 0) -> dict[int, Any]:
    """Fields by their numbers: numbers and structures are read, all else is passed over."""
    if depth > 8:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while (byte := _byte(file)) != 0:
        number = number + (byte >> 4) if byte >> 4 else _signed(file)
        kind = byte & 0x0F
        fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(file, kind, depth)
    return fields


def _value(file: IO[bytes], kind: int, depth: int) -> Any:
    if kind == _STRUCT:
        return _struct(file, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE):
        return _byte(file)
    if kind in (_DOUBLE, _BINARY):
        file.seek(8 if kind == _DOUBLE else _unsigned(file), 1)
        return None
    if kind in (_LIST, _SET):
        size = _byte(file)
        count = size >> 4 if size >> 4 < 15 else _unsigned(file)
        for _ in range(count):
            _value(file, size & 0x0F, depth + 1)
        return None
    if kind >= _MAP or kind == 0:
        raise ValueError("no part of a page's header")
    return _signed(file)
