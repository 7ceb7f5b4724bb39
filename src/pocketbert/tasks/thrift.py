"""Thrift's compact protocol, as far as the headers of a Parquet file are written in it: numbers and structures."""

from typing import IO, Any

MOST_DEEP = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS = (4, 5, 6)  # of 16, 32 and 64 bits


class NotThrift(ValueError):
    """The bytes end too early, or are something else."""


def read_structure(file: IO[bytes], depth: int = 0) -> dict[int, Any]:
    """Fields by their numbers: numbers, structures and lists of these are read, strings are passed over (None)."""
    if depth > MOST_DEEP:
        raise NotThrift("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while (byte := _byte(file)) != 0:
        number = number + (byte >> 4) if byte >> 4 else _signed(file)
        kind = byte & 0x0F
        fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(file, kind, depth)
    return fields


def _value(file: IO[bytes], kind: int, depth: int) -> Any:
    if kind == _STRUCT:
        return read_structure(file, depth + 1)
    if kind in _NUMBERS:
        return _signed(file)
    if kind in (_TRUE, _FALSE, _BYTE):
        return _byte(file)
    if kind in (_DOUBLE, _BINARY):
        file.seek(8 if kind == _DOUBLE else _unsigned(file), 1)
        return None
    if kind in (_LIST, _SET) and depth < MOST_DEEP:
        size = _byte(file)
        count = size >> 4 if size >> 4 < 15 else _unsigned(file)
        values = (_value(file, size & 0x0F, depth + 1) for _ in range(count))
        return [value for value in values if value is not None]
    raise NotThrift(f"type {kind} is in no header of Parquet")


def _byte(file: IO[bytes]) -> int:
    data = file.read(1)
    if not data:
        raise NotThrift("the bytes end too early")
    return data[0]


def _unsigned(file: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(file)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise NotThrift("a number too long")


def _signed(file: IO[bytes]) -> int:
    value = _unsigned(file)
    return (value >> 1) ^ -(value & 1)
