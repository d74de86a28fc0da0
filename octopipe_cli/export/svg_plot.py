"""A chart of curves as an SVG picture, light or dark as its reader's screen is."""

from __future__ import annotations

from typing import Final

from octopipe_cli.export.palette import DARK, LIGHT, Theme
from octopipe_cli.export.svg_parts import FONT, text
from octopipe_cli.render.chart import Axis, Chart, Curve, x_axis, y_axis

# In tenths of a pixel.
WIDTH, HEIGHT = 9000, 5000
LEFT, RIGHT, TOP, BOTTOM = 800, 6900, 700, 4300
MOST_Y_TICKS, MOST_X_TICKS = 8, 12
#: Okabe and Ito's colours, told apart by the colour-blind; the main curve is the heavy one.
COLOURS: Final = ("#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999", "#b8a800")
MAIN: Final = "#0072b2"
DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


def svg_plot(chart: Chart, title: str) -> str:
    """Return the picture: the main curve heavy, its marked points full, the names at the right."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="octopipe-plot" viewBox="0 0 {WIDTH // 10} {HEIGHT // 10}" '
        f'width="{WIDTH // 10}" height="{HEIGHT // 10}" role="img">',
        _style(),
        f'<rect class="paper" width="{WIDTH // 10}" height="{HEIGHT // 10}"/>',
        text(LEFT, 300, title, "title"),
        text(LEFT, 550, chart.y_axis, "soft"),
        text(RIGHT, BOTTOM + 480, chart.x_axis, "soft end"),
    ]
    if chart.main.points:
        axes = x_axis(chart, MOST_X_TICKS), y_axis(chart, MOST_Y_TICKS)
        parts += _axes(*axes)
        for number, curve in enumerate(chart.drawn()):
            parts += _curve(chart, curve, number, axes)
        parts += _legend(chart)
    return "\n".join([*parts, "</svg>", ""])


def _style() -> str:
    def themed(theme: Theme) -> str:
        return (
            f".octopipe-plot .paper{{fill:{theme.paper}}}.octopipe-plot text{{fill:{theme.ink}}}"
            f".octopipe-plot .soft{{fill:{theme.soft}}}.octopipe-plot .rule{{stroke:{theme.rule}}}"
            f".octopipe-plot .open{{fill:{theme.paper}}}"
        )

    fixed = f".octopipe-plot text{{font:12px {FONT}}}.octopipe-plot .title{{font-size:16px;font-weight:600}}"
    fixed += ".octopipe-plot .end{text-anchor:end}.octopipe-plot .mid{text-anchor:middle}"
    return f"<style>{fixed}{themed(LIGHT)}@media (prefers-color-scheme:dark){{{themed(DARK)}}}</style>"


def _axes(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value, name in up.ticks:
        y = _y(up, value)
        parts.append(f'<path class="rule" d="M{LEFT / 10:g} {y / 10:g}H{RIGHT / 10:g}"/>')
        parts.append(text(LEFT - 80, y + 40, name, "soft end"))
    for value, name in across.ticks:
        parts.append(text(_x(across, value), BOTTOM + 230, name, "soft mid"))
    return parts


def _x(axis: Axis, value: float) -> int:
    return LEFT + round(axis.share(value) * (RIGHT - LEFT))


def _y(axis: Axis, value: float) -> int:
    return BOTTOM - round(axis.share(value) * (BOTTOM - TOP))


def _curve(chart: Chart, curve: Curve, number: int, axes: tuple[Axis, Axis]) -> list[str]:
    if not curve.points:
        return []
    is_main = curve.name == chart.main.name
    colour = MAIN if is_main else COLOURS[number % len(COLOURS)]
    places = [(_x(axes[0], x) / 10, _y(axes[1], y) / 10) for x, y in curve.points]
    path = "L".join(f"{x:g} {y:g}" for x, y in places)
    parts = [f'<path d="M{path}" fill="none" stroke="{colour}" {_stroke(is_main, number)}/>']
    for (value, _), (x, y) in zip(curve.points, places, strict=True):
        filled = f'fill="{colour}"' if not is_main or value in chart.marked else 'class="open"'
        size = "5" if is_main else "2.5"
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{size}" {filled} stroke="{colour}" stroke-width="1.5"/>')
    return parts


def _stroke(is_main: bool, number: int) -> str:
    if is_main:
        return 'stroke-width="2.5"'
    dashes = DASHES[number % len(DASHES)]
    return 'stroke-width="1.5"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _legend(chart: Chart) -> list[str]:
    parts, y, x = [], TOP, RIGHT + 200
    curves = list(enumerate(zip(chart.all, chart.drawn(), strict=True)))
    for number, (curve, drawn) in [curves[-1], *curves[:-1]]:
        is_main = curve.name == chart.main.name
        colour = MAIN if is_main else COLOURS[number % len(COLOURS)]
        parts.append(f'<path d="M{x / 10:g} {(y - 40) / 10:g}h24" stroke="{colour}" {_stroke(is_main, number)}/>')
        left = len(curve.points) - len(drawn.points)
        note = " (above)" if left and not drawn.points else " (partly above)" if left else ""
        parts.append(text(x + 320, y, curve.name + note))
        y += 220
    parts.append(f'<circle cx="{x / 10 + 12:g}" cy="{(y - 40) / 10:g}" r="5" fill="{MAIN}"/>')
    parts.append(text(x + 320, y, "no smaller value as good", "soft"))
    return parts
