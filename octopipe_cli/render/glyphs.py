"""The characters and colours of charts and tables, with a set for streams that take ASCII only."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from octopipe_cli.words import visible

STEP_KIND: Final = "S"
IDLE: Final = ""

#: What each kind is called in a legend, in the order of the legend.
KIND_NAMES: Final[Mapping[str, str]] = {
    "F": "F forward",
    "I": "I backward, input",
    "W": "W backward, weights",
    "B": "B backward, whole",
    STEP_KIND: "optimizer step",
    IDLE: "bubble",
}

#: Two tones a kind, based on Okabe and Ito's palette for the colour-blind: the stages of a rank take them in turn.
TONES: Final[Mapping[str, tuple[str, str]]] = {
    "F": ("#56b4e9", "#0072b2"),
    "I": ("#e69f00", "#f0e442"),
    "W": ("#009e73", "#66d9b8"),
    "B": ("#cc79a7", "#d55e00"),
    STEP_KIND: ("#999999", "#999999"),
}


def texture_style(kind: str, tone: str) -> str:
    """Return the style of a kind's texture: most of the cell in its tone, so that light textures do not look idle."""
    if kind in ("F", STEP_KIND):
        return tone
    shade = "#" + "".join(f"{int(tone[at : at + 2], 16) // 3:02x}" for at in (1, 3, 5))
    return f"{tone} on {shade}" if kind == "B" else f"{shade} on {tone}"


@dataclass(frozen=True)
class Glyphs:
    """Characters to draw with; `levels` grow from the least to all of a cell."""

    ascii_only: bool
    texture: Mapping[str, str]
    levels: str
    side: str
    corner: str
    line: str
    tick: str
    rule: str
    infinity: str
    gap: str
    peak: str

    def name(self, text: str) -> str:
        """Return a name from a file as this set can show it."""
        return visible(text, self.ascii_only)

    def plain(self, text: str) -> str:
        """Return a text of ours in characters of this set."""
        return text.replace("µ", "u") if self.ascii_only else text


BLOCKS: Final = Glyphs(
    ascii_only=False,
    texture={"F": "█", "I": "▒", "W": "░", "B": "▓", STEP_KIND: "≡", IDLE: "·"},
    levels="▁▂▃▄▅▆▇█",
    side="│",
    corner="└",
    line="─",
    tick="┴",
    rule="─",
    infinity="∞",
    gap="≈",
    peak="▼",
)
ASCII: Final = Glyphs(
    ascii_only=True,
    texture={"F": "F", "I": "I", "W": "w", "B": "B", STEP_KIND: "=", IDLE: "."},
    levels="123456789",
    side="|",
    corner="+",
    line="-",
    tick="+",
    rule="-",
    infinity="inf",
    gap="~",
    peak="v",
)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the characters a stream of that encoding can take: blocks for UTF-8, ASCII for all others."""
    try:
        name = codecs.lookup(encoding or "ascii").name
    except LookupError:
        return ASCII
    return BLOCKS if name in ("utf-8", "utf-8-sig") else ASCII
