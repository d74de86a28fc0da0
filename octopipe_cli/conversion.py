"""Documents to records: msgspec does the checking, this module says exactly where and what was wrong."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Final, TypeVar

import msgspec

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, child_path, show

T = TypeVar("T")
Steps = tuple["str | int | None", ...]

#: Keys of the file formats that this version does not read yet, and what they belong to.
LATER: Final = dict.fromkeys(
    ("modality", "quadratic_share", "lengths", "microbatch_order", "robust"), "micro-batches that differ"
)


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
    steps = _located(document, kind, _steps(place.rstrip("`")), text)
    raise _error(document, steps, text, file)


def _steps(place: str) -> Steps:
    """Parse msgspec's path; ``[...]``, any key of a mapping, becomes None."""
    found = re.findall(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])", place)
    return tuple(name or (int(index) if index else None) for name, index, _ in found)


def _located(document: Any, kind: type[Any], steps: Steps, text: str) -> Steps:
    """Replace each None by the key whose value alone brings about the same error."""
    if None not in steps:
        return steps
    at = steps.index(None)
    mapping = _at(document, steps[:at])
    for key, value in mapping.items():
        try:
            msgspec.convert(_with(document, steps[:at], {key: value}), kind)
        except msgspec.ValidationError as error:
            if str(error).startswith(text):
                return _located(document, kind, (*steps[:at], key, *steps[at + 1 :]), text)
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


def _error(document: Document, steps: Steps, text: str, file: str) -> InputError:
    path = "$"
    for step in steps:
        assert step is not None
        path = child_path(path, step)
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        return _unknown_key(path, match[1], file)
    if match := re.fullmatch(r"Object missing required field `(.*)`", text, re.DOTALL):
        key = show(match[1])
        return InputError(f"the key {key} is missing", file=file, path=path, remedy=f"add {key} to this object")
    found = None
    with contextlib.suppress(LookupError, TypeError):
        found = show(_at(document, steps))
    match = re.fullmatch(r"Expected (.*), got .*", text, re.DOTALL)
    expected = (match[1] if match else text.removeprefix("Expected ")).replace("`", "")
    expected = expected.replace("float", "number").replace("int", "whole number").replace("str", "text")
    return InputError("not a value that can stand here", file=file, path=path, found=found, expected=expected)


def _unknown_key(path: str, key: str, file: str) -> InputError:
    if key in LATER:
        return InputError(
            f"{show(key)} is not supported yet ({LATER[key]})",
            file=file,
            path=child_path(path, key),
            remedy=f"delete {show(key)}: all micro-batches are then alike",
        )
    return InputError(
        f"unknown key {show(key)}", file=file, path=child_path(path, key), remedy="check its spelling, or delete it"
    )
