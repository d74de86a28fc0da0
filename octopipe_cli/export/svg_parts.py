"""SVG elements as text, and the style sheet: plain classes, since not every program that reads SVG knows variables."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from octopipe_cli.export.lanes import TENTHS
from octopipe_cli.export.palette import DARK, FILLS, LIGHT, Theme

FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,'DejaVu Sans',sans-serif"
ROOT: Final = "svg.octopipe"


def style_sheet() -> str:
    """Return the style sheet: light, and dark where the reader's screen is; nothing of it leaks into a page around."""
    fixed = [f"text{{font:12px {FONT};font-variant-numeric:tabular-nums}}"]
    fixed += [".title{font-size:19px;font-weight:600}", ".value{font-size:17px;font-weight:600}"]
    fixed += [".strong{font-weight:600}", ".small{font-size:10px}", ".end{text-anchor:end}", ".mid{text-anchor:middle}"]
    fixed += [".number{font-size:11px;font-weight:600}", ".stage{font-size:8.5px;opacity:.85}"]
    for kind, fill in FILLS.items():
        fixed += [f".{kind}0{{fill:{fill.even}}}", f".{kind}1{{fill:{fill.odd}}}", f".on{kind} text{{fill:{fill.ink}}}"]
    light, dark = "".join(_scoped(_themed(LIGHT))), "".join(_scoped(_themed(DARK)))
    return f"<style>{''.join(_scoped(fixed))}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _scoped(rules: Iterable[str]) -> list[str]:
    return [f"{ROOT} {rule}" for rule in rules]


def _themed(theme: Theme) -> list[str]:
    return [
        f".paper{{fill:{theme.paper}}}",
        f"text{{fill:{theme.ink}}}",
        f".soft{{fill:{theme.soft}}}",
        f".idle{{fill:{theme.idle}}}",
        f".hatch{{stroke:{theme.hatch};stroke-width:1.2}}",
        f".rule{{stroke:{theme.rule};stroke-width:1}}",
        f".edge{{stroke:{theme.paper};stroke-width:6}}",
        f".bound{{stroke:{theme.bound};stroke-width:1.3;stroke-dasharray:5 3}}",
        f".step{{stroke:{theme.ink};stroke-width:1.3}}",
        f"text.bound{{fill:{theme.bound};stroke:none}}",
        f".limit{{stroke:{theme.limit};stroke-width:1.2;stroke-dasharray:3 2}}",
        f".state{{fill:{theme.state}}}",
        f".memory{{fill:{theme.memory}}}",
    ]


def number(tenths: int) -> str:
    """Return a coordinate in pixels: ``12``, ``12.5``."""
    whole, rest = divmod(abs(tenths), TENTHS)
    return f"{'-' if tenths < 0 else ''}{whole}{f'.{rest}' if rest else ''}"


def text(x: int, y: int, words: str, classes: str = "") -> str:
    """Return a line of text at x, y, in tenths of a pixel; what it says is escaped."""
    marked = f' class="{classes}"' if classes else ""
    return f'<text x="{number(x)}" y="{number(y)}"{marked}>{escape(words)}</text>'


def rect(x: int, y: int, width: int, height: int, classes: str) -> str:
    """Return a rectangle, its measures in tenths of a pixel."""
    size = f'width="{number(width)}" height="{number(height)}"'
    return f'<rect x="{number(x)}" y="{number(y)}" {size} class="{classes}"/>'


def line(x: int, y: int, to_x: int, to_y: int, classes: str) -> str:
    """Return a line, its ends in tenths of a pixel."""
    return f'<path d="M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}" class="{classes}"/>'


def block(left: int, right: int, top: int, bottom: int) -> str:
    """Return the part of a path that draws a rectangle, in the path's own units."""
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def shapes(paths: dict[str, list[str]]) -> str:
    """Return one path a class; their units are tenths of a pixel."""
    drawn = "".join(f'<path class="{name}" d="{"".join(parts)}"/>' for name, parts in sorted(paths.items()))
    return f'<g transform="scale(.1)">{drawn}</g>' if drawn else ""
