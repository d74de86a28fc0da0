"""Documents and texts with something wrong in them: what people, editors and attackers make of a good file."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from hypothesis import strategies as st

Steps = tuple["str | int", ...]

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, 2**53 + 1, 2**62, 2**63, 2**64, 10**400, -(10**400)),
    *(0.5, -0.5, -0.0, 5e-324, 1e-9, 1e15, 1e308, float("inf"), float("nan")),
    *("", "x", "0", "\x1b[31mred", "\u202e", "\0", "]]>", "</script>", "::error::x", "|", "`", "ä" * 300, "0F0 0I0"),
    *([], {}, [[]], [0, 0], [1, 0], [{}], {"": {}}, {"repeat": 10_000, "of": ["mamba"]}, ["mamba"] * 50),
)

PIECES: Final = (
    *("{", "}", "[", "]", '"', ",", ":", "\\", "\\u", "\\ud800", "\n", "\r\n", "\t", " ", "\0", "\x1b[31m", "\ufeff"),
    *("null", "NaN", "-", "+", "e9", "1e400", "9" * 400, "9" * 5000, "[" * 3000, '{"a":' * 300, "0F0", "0F00000000"),
    *("|", "*", "(", ")", "*99999999999", "t", "E", "L", "m", "/", "#", "=", ".", "'", "rank 0: 1.5", "٣", "²", "é"),
)


def places(value: Any, steps: Steps = ()) -> list[Steps]:
    """Return the places of all that stands in a document."""
    found = [steps]
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        found += places(item, (*steps, key))
    return found


def _at(document: Any, steps: Steps) -> Any:
    for step in steps:
        document = document[step]
    return document


def changed(document: Any, steps: Steps, change: str, value: Any) -> Any:
    """Return a copy of a document in which one place is changed."""
    if not steps:
        return value if change == "set" else document
    document = copy.deepcopy(document)
    parent, last = _at(document, steps[:-1]), steps[-1]
    if change == "set":
        parent[last] = value
    elif change == "remove":
        del parent[last]
    elif change == "wrap":
        parent[last] = [parent[last]]
    elif isinstance(parent, list):  # "add"
        parent.insert(last, value)
    else:
        parent["more"] = value
    return document


@st.composite
def documents(draw: st.DrawFn, *samples: Any) -> bytes:
    """Return one of the documents as a file, up to four places changed, now and then the text of it too."""
    document = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        found = places(document)
        steps = draw(st.sampled_from(found))
        change = draw(st.sampled_from(("set", "set", "set", "remove", "wrap", "add")))
        if change in ("remove", "wrap"):
            value = None
        elif draw(st.booleans()):
            value = draw(st.sampled_from(VALUES))
        else:  # something of its own that belongs elsewhere
            value = copy.deepcopy(_at(document, draw(st.sampled_from(found))))
        document = changed(document, steps, change, value)
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    return draw(texts(text)) if draw(st.integers(0, 4)) == 0 else text.encode("utf-8", "surrogatepass")


@st.composite
def texts(draw: st.DrawFn, *samples: str) -> bytes:
    """Return one of the texts with up to four pieces cut out, put in or doubled."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 0, 1, 2, 5, 40, 10**9))))
        piece = draw(st.sampled_from((*PIECES, "", text[start:end] * 2)) | st.text(max_size=4))
        text = text[:start] + piece + text[end:]
    data = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at:]
    return data
