"""Rows of a Parquet file, in bounded memory: the columns that are asked for, some rows at a time.

Strings stay numbers into a dictionary until their row comes: a file of a kilobyte can say "the same ten megabytes, a
million times". How many rows are taken at once depends on what the headers of the pages allow.
"""

import contextlib
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.lines import MOST_IN_A_FIELD, SharedFile, reading
from pocketbert.tasks.pages import MOST_IN_A_FOOTER, WORD, Pages, look_at_pages, read_footer

MOST_IN_A_LIST = 10_000  # columns, or groups of rows
MOST_UNPACKED = 64_000_000  # bytes of a gzipped file; Parquet packs its pages itself
MOST_AT_ONCE = 16_000_000  # bytes of values
MOST_ROWS_AT_ONCE = 8_192


def parquet_columns(path: Path) -> tuple[str, ...]:
    with _opened(path) as (_, file, _):
        names = tuple(file.schema_arrow.names)
    if len(set(names)) < len(names):
        raise UserError(f"{path}: two columns have one name: {listed(names)}; rename one")
    if not names:
        raise UserError(f"{path}: there are no columns in it")
    return names


def class_names(path: str | Path, column: str) -> tuple[str, ...] | None:
    """The label names that the `datasets` library writes into a Parquet file, by their numbers."""
    with _opened(Path(path)) as (_, file, _):
        metadata = file.schema_arrow.metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        names = features[column].get("names")
        return tuple(str(name) for name in names) if names else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def parquet_rows(path: Path, needed: Sequence[str] | None = None, *, beside: bool = False) -> Iterator[dict[str, Any]]:
    """The rows, with the columns that are needed (None: all of them), every value of which must be readable.

    `beside`: with the other columns too, as far as they are plain; what is damaged there does no harm.
    """
    with _opened(path) as (raw, plain, groups):
        schema = plain.schema_arrow
        needed = schema.names if needed is None else needed
        columns = [field.name for field in schema if field.name in needed or (beside and _is_plain(field.type))]
        if not columns:
            raise UserError(f"{path}: no column holds text or numbers; it has: {listed(schema.names)}")
        strings = [name for name in columns if _is_string(schema.field(name).type)]
        first = 1
        for number, group in enumerate(groups):
            pages = _pages(path, raw, plain, group, columns)
            coded = [name for name in strings if all(it.all_coded for it in pages[name].values())]
            for name in set(strings).difference(coded):
                if pa.types.is_dictionary(schema.field(name).type):  # its reader would gather all that is not coded
                    raise UserError(
                        f"{path}: column {quote(name)} holds too many categories; write it again as plain strings"
                    )
            rows = _rows_at_once(path, plain, pages, coded)
            file = _reader(raw, coded, plain.metadata)
            for batch in file.iter_batches(rows, row_groups=[number], columns=columns, use_threads=False):
                names = batch.schema.names
                values = [_values(path, name, batch.column(name), first, strict=name in needed) for name in names]
                for row in zip(*values, strict=True):
                    yield dict(zip(names, row, strict=True))
                first += len(batch)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], Any, list[list[dict[int, Any]]]]]:
    """A Parquet file's bytes, its reader, and what its footer says of each group of rows."""
    with reading(path), _bytes(path) as raw:
        try:
            groups = read_footer(path, raw)
            yield raw, _reader(raw), groups
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = quote(str(error).split("\n", 1)[0])
            raise UserError(f"{path}: not a Parquet file that can be read, or a damaged one: {reason}") from None


def _bytes(path: Path) -> IO[bytes]:
    file = SharedFile(path).stream()
    if not isinstance(file, gzip.GzipFile):
        return file
    with file:
        data = file.read(MOST_UNPACKED + 1)
    if len(data) > MOST_UNPACKED:
        raise UserError(f"{path}: a gzipped Parquet file of more than {MOST_UNPACKED:,} bytes; unpack it first: gunzip")
    return io.BytesIO(data)


def _reader(raw: IO[bytes], coded: Sequence[str] = (), metadata: Any = None) -> Any:
    return pq.ParquetFile(
        raw,
        metadata=metadata,
        read_dictionary=coded,
        buffer_size=1 << 20,
        pre_buffer=False,
        thrift_container_size_limit=MOST_IN_A_LIST,
        thrift_string_size_limit=MOST_IN_A_FOOTER,
    )


def _is_string(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _is_plain(kind: Any) -> bool:
    types = pa.types
    return _is_string(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)


# ------------------------------------------------------------ how many rows at once


def _pages(
    path: Path, raw: IO[bytes], file: Any, group: Sequence[dict[int, Any]], columns: Sequence[str]
) -> dict[str, dict[int, Pages]]:
    """What the pages of a group of rows say: for each column, by the places of its parts in the file."""
    found: dict[str, dict[int, Pages]] = {name: {} for name in columns}
    for place, part in enumerate(group[: len(file.schema)]):
        whole = f"{file.schema.column(place).path}."
        name = next((it for it in columns if whole.startswith(f"{it}.")), None)
        if name is not None:
            found[name][place] = look_at_pages(raw, f"{path}: column {quote(name)}", part, _unpacked)
    return found


def _unpacked(packing: str | None, data: bytes, size: int) -> bytes:
    """A page. One that cannot be unpacked here is taken for one long string."""
    if packing is None:
        return data
    try:
        return pa.Codec(packing).decompress(data, size, asbytes=True)
    except (pa.ArrowException, ValueError, OSError):
        return size.to_bytes(4, "little")


def _rows_at_once(path: Path, file: Any, pages: dict[str, dict[int, Pages]], coded: Sequence[str]) -> int:
    each = 0
    for name, parts in pages.items():
        for place, them in parts.items():
            size = WORD if name in coded else them.largest
            if not file.schema.column(place).max_repetition_level:
                each += size
            elif them.values * size > MOST_AT_ONCE:  # lists: one row may hold all of the values
                raise UserError(
                    f"{path}: column {quote(name)} holds lists of {them.values:,} values in a group of rows, too many "
                    "to copy; write the file again without this column"
                )
    return max(1, min(MOST_ROWS_AT_ONCE, MOST_AT_ONCE // max(1, each)))


# ------------------------------------------------------------ values


def _values(path: Path, name: str, array: Any, first: int, *, strict: bool) -> Iterator[Any]:
    if _is_string(array.type):
        return _strings(path, name, array, first, strict=strict)
    try:
        return iter(array.to_pylist())
    except _NO_VALUE:
        pass
    try:  # times that Python has no value for, such as those of nanoseconds, or of the year 20,000
        return iter(array.cast(pa.string()).to_pylist())
    except _NO_VALUE as error:
        reason = quote(str(error).split("\n", 1)[0])
        raise UserError(
            f"{path}: column {quote(name)} ({array.type}), row {first} or one of the next {len(array) - 1:,}: a value "
            f"that cannot be read: {reason}; write the file again without it, or with the column as strings"
        ) from None


_NO_VALUE = (pa.ArrowException, ValueError, ArithmeticError, LookupError, TypeError)


def _strings(path: Path, name: str, array: Any, first: int, *, strict: bool) -> Iterator[str | bytes | None]:
    """The strings of a column: all at once if they are small, else each when its row comes, and once as far as it fits.

    `first` is the number of the first row, for messages.
    """
    coded = pa.types.is_dictionary(array.type)
    numbers, strings = (array.indices.to_pylist(), array.dictionary) if coded else (range(len(array)), array)
    some = [number for number in numbers if number is not None]
    if some and not 0 <= min(some) <= max(some) < len(strings):
        raise UserError(f"{path}: column {quote(name)}, row {first} or one of the next {len(array) - 1:,}: damaged")
    if len(strings) <= 4 * len(array) and strings.nbytes <= MOST_AT_ONCE:
        with contextlib.suppress(UnicodeDecodeError):  # which one it is, is found below
            values = strings.to_pylist()
            yield from (None if number is None else values[number] for number in numbers)
            return
    text = pa.types.is_string(strings.type) or pa.types.is_large_string(strings.type)
    made: dict[int, str | bytes] = {}
    left = MOST_AT_ONCE if coded else 0
    for row, number in enumerate(numbers, start=first):
        value = made.get(number)
        data = None if value is not None or number is None else strings[number].as_buffer()
        if data is not None:
            if data.size > 4 * MOST_IN_A_FIELD:  # UTF-8 is at most four bytes a letter
                raise UserError(f"{path}: row {row}: column {quote(name)} holds {data.size:,} bytes; shorten it")
            value = data.to_pybytes()
            if text:
                try:
                    value = value.decode("utf-8", "strict" if strict else "replace")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}: row {row}: column {quote(name)}, byte {error.start + 1} is "
                        f"0x{value[error.start]:02X}, which is not UTF-8; write the file again, from true strings"
                    ) from None
            if data.size < left:
                left -= data.size
                made[number] = value
        yield value
