"""The colours of the pictures: told apart by the colour-blind and, by their lightness alone, in a grey print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from octopipe_cli.render.glyphs import STEP_KIND


class Fill(NamedTuple):
    """Two tones of a kind, which the stages of a rank take in turn, and the colour of the text on them."""

    even: str
    odd: str
    ink: str


#: Hues as in the terminal's chart (after Okabe and Ito); CIE lightness falls from I to F, W and B, and no tone is
#: within 7.5 of another kind's.
FILLS: Final[Mapping[str, Fill]] = {
    "F": Fill("#5aaee6", "#4699d3", "#06131f"),
    "I": Fill("#fdcb70", "#f5bb52", "#241500"),
    "W": Fill("#17876d", "#0f735c", "#ffffff"),
    "B": Fill("#733381", "#5d2469", "#ffffff"),
    STEP_KIND: Fill("#8d939c", "#8d939c", "#ffffff"),
}


class Theme(NamedTuple):
    """What lies around the actions: paper, text, faint text, rules, idle time, bound, limit and memory."""

    paper: str
    ink: str
    soft: str
    rule: str
    idle: str
    hatch: str
    bound: str
    limit: str
    state: str
    memory: str


LIGHT: Final = Theme(
    paper="#ffffff",
    ink="#1b1f26",
    soft="#59636f",
    rule="#d4d9df",
    idle="#f6f7f9",
    hatch="#c3cad3",
    bound="#b3261e",
    limit="#b3261e",
    state="#8fa0b3",
    memory="#c9d3de",
)
DARK: Final = Theme(
    paper="#12161b",
    ink="#e8ebef",
    soft="#9aa5b1",
    rule="#343b45",
    idle="#191e25",
    hatch="#414b58",
    bound="#ff8a80",
    limit="#ff8a80",
    state="#5c6c80",
    memory="#3a4757",
)
