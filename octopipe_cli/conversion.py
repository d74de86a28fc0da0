"""Documents to records: msgspec does the checking, this module says exactly where and what was wrong."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, did_you_mean, one_of, path_of, show, shown_file

T = TypeVar("T")
Steps = tuple["str | int | None", ...]

#: JSON's words for msgspec's names of types.
_WORDS: Final = {"float": "a number", "int": "a whole number", "str": "text", "bool": "true or false"}
_WORDS.update({"object": "an object", "array": "a list", "null": "null"})


def convert(document: Document, kind: type[T], file: str) -> T:
    """Return a document as a record of the given kind.

    Raises
    ------
    InputError
        With the JSON path, what stands there and what was expected.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        message = str(error)
    text, _, place = message.partition(" - at `")
    at_key = place.startswith("key` in `")  # the key of a mapping is wrong, not what stands below it
    steps = _steps(place.removeprefix("key` in `").rstrip("`"))
    found = _located(document, kind, (*steps, None) if at_key else steps, message)
    raise _error(document, kind, found, text, at_key, shown_file(file))


def _steps(place: str) -> Steps:
    """Parse msgspec's path; ``[...]``, any key of a mapping, becomes None."""
    found = re.findall(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])", place)
    return tuple(name or (int(index) if index else None) for name, index, _ in found)


def _located(document: Any, kind: type[Any], steps: Steps, message: str) -> Steps:
    """Replace each None by the key whose value alone brings about the same error."""
    if None not in steps:
        return steps
    at = steps.index(None)
    mapping = _at(document, steps[:at])
    for key, value in mapping.items():
        try:
            msgspec.convert(_with(document, steps[:at], {key: value}), kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return _located(document, kind, (*steps[:at], key, *steps[at + 1 :]), message)
    return steps[:at]


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        value = value[step]
    return value


def _with(value: Any, steps: Steps, new: Any) -> Any:
    """Return a copy of a value in which another stands at the end of the steps."""
    if not steps:
        return new
    step = steps[0]
    if isinstance(value, list):
        assert isinstance(step, int)
        return [*value[:step], _with(value[step], steps[1:], new), *value[step + 1 :]]
    return {**value, step: _with(value[step], steps[1:], new)}


def _types_at(kind: type[Any], steps: Steps) -> list[Any]:
    """Return msgspec's descriptions of what may stand at a place, unions and mappings' keys written out."""
    import msgspec.inspect as inspect  # only where something is wrong already

    def parts(node: Any) -> list[Any]:
        return [part for item in node.types for part in parts(item)] if isinstance(node, inspect.UnionType) else [node]

    nodes = parts(inspect.type_info(kind))
    for step in steps:
        below: list[Any] = []
        for node in nodes:
            if isinstance(node, inspect.StructType):
                below += [field.type for field in node.fields if field.encode_name == step]
            elif isinstance(node, inspect.DictType):
                below.append(node.value_type)
            elif isinstance(node, inspect.TupleType) and isinstance(step, int):
                below += node.item_types[step : step + 1]
            elif isinstance(node, inspect.ListType):
                below.append(node.item_type)
        nodes = [part for node in below for part in parts(node)]
    return nodes


def _choices(kind: type[Any], steps: Steps, at_key: bool) -> list[str]:
    """Return the values a place admits where they are listed one by one."""
    nodes = _types_at(kind, steps[:-1] if at_key else steps)
    nodes = [node.key_type for node in nodes] if at_key else nodes
    return [str(value) for node in nodes for value in getattr(node, "values", ())]


def _error(document: Document, kind: type[Any], steps: Steps, text: str, at_key: bool, file: str) -> InputError:
    path = path_of(step for step in steps if step is not None)
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        known = [field.encode_name for node in _types_at(kind, steps) for field in getattr(node, "fields", ())]
        return _unknown_key(steps, match[1], known, file)
    if match := re.fullmatch(r"Object missing required field `(.*)`", text, re.DOTALL):
        key = show(match[1])
        return InputError(f"the key {key} is missing", file=file, path=path, remedy=f"add {key} to this object")
    found: Any = None
    with contextlib.suppress(LookupError, TypeError):
        found = steps[-1] if at_key else _at(document, steps)
    message = "not a key that can stand here" if at_key else "not a value that can stand here"
    remedy = None
    if text.startswith("Invalid enum value"):
        names = _choices(kind, steps, at_key)
        expected = one_of(names)
        remedy = did_you_mean(found, names, "") if isinstance(found, str) else None
    else:
        expected = _expected(text)
    return InputError(message, file=file, path=path, found=show(found), expected=expected, remedy=remedy or None)


def _expected(text: str) -> str:
    """Return msgspec's ``Expected `int` >= 1, got ...`` in words of JSON."""
    if text == "Number out of range":
        return "a number that a computer's arithmetic holds"
    wanted = text.removeprefix("Expected ").partition(", got ")[0]
    match = re.fullmatch(r"`([^`]*)`(.*)", wanted, re.DOTALL)
    if match is None:
        return wanted
    kinds = [_WORDS.get(name.strip(), name.strip()) for name in match[1].split("|")]
    return " or ".join(kinds) + match[2].replace(" of length", ", length")


def _unknown_key(steps: Steps, key: str, known: Iterable[str], file: str) -> InputError:
    path = path_of([*(step for step in steps if step is not None), key])
    remedy = did_you_mean(key, known, "delete it, or keep notes under $.provenance")
    return InputError(f"unknown key {show(key)}", file=file, path=path, remedy=remedy)
