"""Flags made from the methods' settings: an option is written once, where a method declares it.

A command that takes them has a parameter `told`, and gets there what was said on the command line, by name. What was
not said is not there, so that each method's own default holds.
"""

import inspect
import types
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from pocketbert.errors import UserError
from pocketbert.methods import list_methods


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A decorator, below `app.command`: the parameter `told` becomes one flag for every setting that a method reads."""
    declared = settings_of_methods()
    own = inspect.signature(command)

    def wrapper(**given: Any) -> None:
        told = {name: given.pop(name) for name in declared}
        command(**given, told={n: _parsed(n, declared[n][1], value) for n, value in told.items() if value is not None})

    made = [_parameter(field, kind, readers) for field, kind, readers in declared.values()]
    rest = [parameter for name, parameter in own.parameters.items() if name != "told"]
    wrapper.__signature__ = own.replace(parameters=[*rest, *made])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in (*rest, *made)}
    wrapper.__name__, wrapper.__doc__, wrapper.__module__ = command.__name__, command.__doc__, command.__module__
    return wrapper


def settings_of_methods() -> dict[str, tuple[Field[Any], Any, list[str]]]:
    """Every setting that any method reads: its field, its type, the methods that read it."""
    found: dict[str, tuple[Field[Any], Any, list[str]]] = {}
    for name, method in list_methods().items():
        hints = get_type_hints(method.settings, include_extras=True)
        for field in fields(method.settings):
            found.setdefault(field.name, (field, hints[field.name], []))[2].append(name)
    return found


def _parameter(field: "Field[Any]", kind: Any, readers: list[str]) -> inspect.Parameter:
    flag = field.metadata["flag"] or field.name.replace("_", "-")
    simple = _simple(kind)
    names = [f"--{flag}/--no-{flag}"] if simple is bool and field.default else [f"--{flag}"]
    option = typer.Option(*names, help=_help(field, readers), show_default=False)
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[simple | None, option]
    )


def _help(field: "Field[Any]", readers: list[str]) -> str:
    """The declaration's own words; for whom, where it is not for every method that has a model; the default."""
    methods = list_methods()
    neural = [name for name, method in methods.items() if method.needs_model]
    whom = "" if set(neural) <= set(readers) else f"{', '.join(readers)}: "
    plain = field.default is not None and not isinstance(field.default, bool)
    default = f" Default: {field.default}." if plain else ""
    return f"{whom}{field.metadata['help']}{default}"


def _forms(kind: Any) -> list[Any]:
    """The types that a declaration allows, bounds and None aside."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _forms(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return [form for one in get_args(kind) if one is not type(None) for form in _forms(one)]
    return [kind]


def _simple(kind: Any) -> Any:
    """The type that the command line parses; where a list is allowed, text."""
    forms = _forms(kind)
    return str if any(get_origin(form) is tuple for form in forms) else forms[0]


def _parsed(name: str, kind: Any, value: Any) -> Any:
    """Where a list of numbers is allowed: one number, or several, comma-separated."""
    if not any(get_origin(form) is tuple for form in _forms(kind)):
        return value
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        flag = name.replace("_", "-")
        raise UserError(f"--{flag} {value}: expected a number, or several, comma-separated: 1e-4,3e-4") from None
    return numbers[0] if len(numbers) == 1 else numbers
