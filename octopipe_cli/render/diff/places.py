"""Where in a file a JSON path stands: the line that an annotation points at."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_STEP: Final = re.compile(r"\.([\w+-]+)|\[(\d+)\]|\[(?=\")")
_BLANKS: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


def steps_of(path: str) -> list[str | int]:
    """Return the keys and indices of a JSON path (``$.layers[3]["odd key"]``), as far as it is one."""
    steps: list[str | int] = []
    at = 1
    while match := _STEP.match(path, at):
        at = match.end()
        if match[1] is not None:
            steps.append(match[1])
        elif match[2] is not None:
            steps.append(int(match[2]))
        else:
            try:
                key, at = _DECODER.raw_decode(path, at)
            except ValueError:
                break
            steps.append(str(key))
            at += 1  # the bracket that closes
    return steps


def line_of(text: str, path: str) -> int:
    """Return the line (from 1) of a JSON path in a text: of the deepest part of the path that is there.

    A key of an object counts as the place of its value. A text that is no JSON has what was found before it breaks.
    """
    at = _skip(text, 0)
    found = at
    try:
        for step in steps_of(path):
            child = _child(text, at, step)
            if child is None:
                break
            found, at = child
    except (ValueError, IndexError, RecursionError):
        pass
    return text.count("\n", 0, found) + 1


def _child(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Return where a child of the value at a place begins, with its key and without; None where there is none."""
    if text[at] != ("[" if isinstance(step, int) else "{"):
        return None
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "]}":
        begin = at
        key: Any = index
        if isinstance(step, str):
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        if key == step:
            return begin, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    return None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
