"""Values from outside (a TOML file, a run's settings.json, a flag), held against the types that code declares.

A field says once what it may be, bounds included: `epochs: Annotated[int, Between(1, 100_000)] | None`. `Settings`, the
keys of a study.toml and the objects of a run's JSON files are all checked from such declarations, so that every one of
them refuses the same wrong values with the same words: what it is called, what was found, what is expected.
"""

import contextlib
import math
import os
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pocketbert.errors import UserError, quote
from pocketbert.files import read_json

NAMES = {"dict": "object", "tuple": "list"}  # what people call them
FORMAT = 2  # the newest of the folders that this version reads


@dataclass(frozen=True)
class Between:
    """Bounds of a number; both belong to it, unless said otherwise."""

    least: float
    most: float
    above: bool = False  # the least itself does not belong
    below: bool = False  # the most itself does not

    def holds(self, value: float) -> bool:
        low = self.least < value if self.above else self.least <= value
        return low and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        if not self.above and not self.below:
            return f"from {_number(self.least)} to {_number(self.most)}"
        low, high = "above" if self.above else "of at least", "below" if self.below else "at most"
        return f"{low} {_number(self.least)} and {high} {_number(self.most)}"


@dataclass(frozen=True)
class OneOf:
    """The words that are known."""

    known: tuple[str, ...]

    def holds(self, value: str) -> bool:
        return value in self.known

    def __str__(self) -> str:
        return f"one of {', '.join(self.known)}"


@dataclass(frozen=True)
class Entries:
    """How many entries a list may have; `distinct`: each only once."""

    least: int
    most: int
    distinct: bool = False

    def holds(self, value: tuple[Any, ...]) -> bool:
        return self.least <= len(value) <= self.most and not (self.distinct and len(set(value)) < len(value))

    def __str__(self) -> str:
        return f"with {_number(self.least)} to {_number(self.most)} entries{', none twice' if self.distinct else ''}"


def held(value: Any, kind: Any, name: str) -> Any:
    """The value, if it is of this kind; lists become tuples, objects what dataclass they describe. Else an error."""
    try:
        return _held(value, kind, name)
    except _Wrong as wrong:
        if isinstance(wrong.rule, OneOf) and isinstance(wrong.value, str):
            known = ", ".join(wrong.rule.known)
            raise UserError(f"{wrong.name}: {shown(wrong.value)} is not known; known are {known}") from None
        raise UserError(f"{wrong.name}: {shown(wrong.value)} is not {wrong.expected}") from None


def hold_fields(made: Any) -> None:
    """Check every field of a dataclass against its declaration; for its `__post_init__`."""
    for name, kind in _hints(made.__class__).items():
        object.__setattr__(made, name, held(getattr(made, name), kind, name))


def known_keys(content: Mapping[str, Any], known: Any, what: str) -> None:
    """Every key is one that is known; a misspelt one would be ignored without a word."""
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise UserError(f"{what}{shown(unknown[0])} is not known; known are {', '.join(sorted(known))}")


def field_names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def read_object(path: str | os.PathLike[str], kind: Any, *, outdated: str | None = None) -> Any:
    """A JSON file that holds an object of this kind (a TypedDict or a dataclass), and is of a format that we read.

    `outdated`: older formats than the newest are not read, and this is what to do about it.
    """
    content = read_json(path)
    if isinstance(content, dict) and type(found := content.get("format")) is int:
        if found > FORMAT:
            raise UserError(f"{path}: made by a newer pocketbert (format {shown(found)}); update this one")
        if found < FORMAT and outdated is not None:
            raise UserError(f"{path}: made by an older pocketbert (format {shown(found)}); {outdated}")
    with within(f"{path}: damaged"):
        return held(content, kind, "it")


Format = Annotated[int, Between(1, FORMAT)]
Count = Annotated[int, Between(0, 2**62)]


@contextlib.contextmanager
def within(place: str | Path) -> Iterator[None]:
    """What is wrong in this block is said with its place before it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def shown(value: Any) -> str:
    """A value as a message repeats it; a list or an object is called one."""
    if isinstance(value, str | int | float | None):
        return quote(value)
    kind = type(value).__name__
    return f"the {NAMES.get(kind, kind)} {quote(value)}"


# -- the kinds -------------------------------------------------------------------------------------------------------


class _Wrong(Exception):
    def __init__(self, name: str, value: Any, kind: Any, rule: Any = None) -> None:
        self.name, self.value, self.rule = name, value, rule
        self.expected = _described(kind)


def _held(value: Any, kind: Any, name: str) -> Any:
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, kind, name)
    if origin is Annotated:
        if not _plain(inside[0], value):
            raise _Wrong(name, value, kind)
        value = _held(value, inside[0], name)
        for rule in inside[1:]:
            if not rule.holds(value):
                raise _Wrong(name, value, kind, rule)
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _Wrong(name, value, kind)
        return tuple(_held(one, inside[0], f"{name}, entry {place}") for place, one in enumerate(value, start=1))
    if origin is dict or _has_fields(kind):
        return _held_object(value, kind, name)
    if not _plain(kind, value):
        raise _Wrong(name, value, kind)
    return float(value) if kind is float else value  # 1 and 1.0 are one setting, and one run


def _held_object(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise _Wrong(name, value, kind)
    if not _has_fields(kind):
        return {key: _held(one, get_args(kind)[1], f"{name}, {quote(key)}") for key, one in value.items()}
    made = {}
    for key, declared in _hints(kind).items():
        inner = key if name == "it" else f"{name}, {key}"
        if key in value:
            made[key] = _held(value[key], declared, inner)
        elif key in _required(kind):
            raise UserError(f"{inner} is missing")
    return value if is_typeddict(kind) else kind(**made)


def _one_of(value: Any, kind: Any, name: str) -> Any:
    """Of a union, the kind whose form the value has; its own complaint is the one to be read."""
    forms = [one for one in get_args(kind) if one is not type(None)]
    if value is None and len(forms) < len(get_args(kind)):
        return None
    for one in forms:
        if _plain(one, value):
            return _held(value, one, name)
    raise _Wrong(name, value, kind)


def _plain(kind: Any, value: Any) -> bool:
    """Has it the form of this kind, bounds and entries aside?"""
    origin = get_origin(kind)
    if origin is Annotated:
        return _plain(get_args(kind)[0], value)
    if origin is tuple:
        return isinstance(value, list | tuple)
    if origin in (Union, types.UnionType):
        return any(_plain(one, value) for one in get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is str:
        return isinstance(value, str) and is_text(value)
    return isinstance(value, dict if origin is dict or _has_fields(kind) else kind)


def _has_fields(kind: Any) -> bool:
    return is_typeddict(kind) or is_dataclass(kind)


def is_text(value: str) -> bool:
    """Can it be written to a file, and be part of a path? A NUL and half a character cannot."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _described(kind: Any, *, several: bool = False) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        rules = [str(rule) for rule in inside[1:]]
        if isinstance(inside[1], OneOf):
            return rules[0]
        return " ".join([_described(inside[0], several=several), *rules])
    if origin in (Union, types.UnionType):
        return " or ".join(_described(one, several=several) for one in inside if one is not type(None))
    if origin is tuple:
        return f"a list of {_described(inside[0], several=True)}"
    names = {
        bool: ("true or false", "true or false"), int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"), str: ("text", "texts"),
    }  # fmt: skip
    return names.get(kind, ("an object", "objects"))[several]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _required(kind: Any) -> frozenset[str]:
    if is_typeddict(kind):
        return frozenset(kind.__required_keys__)
    bare = (field for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)
    return frozenset(field.name for field in bare)
