"""``html``: one self-contained page with a chart to zoom and to point into; no network, no libraries.

What comes from files reaches the page in two ways only: as escaped text, and as JSON in which nothing can end the
element it stands in. The page's Content-Security-Policy admits its own style sheet and script, by their digests, and
nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Final

from octopipe_cli.export import Options, headline
from octopipe_cli.export.html_data import page_data, safe_json
from octopipe_cli.export.html_tables import rank_rows, stage_rows, table
from octopipe_cli.export.palette import DARK, LIGHT
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.render.glyphs import IDLE, KIND_NAMES, STEP_KIND
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline

#: The parts of the page's script, in their order.
SCRIPTS: Final = ("plan", "draw", "lanes", "memory", "links", "move", "point", "start")
PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{script_hash}'; \
style-src '{style_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{creator}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="soft">{size}; {request}</p>
<dl class="figures">{figures}</dl>
<div class="bar">{legend}<span class="push">{buttons}</span></div>
<div id="chart" tabindex="0" role="img" \
aria-label="Chart of the plan's timeline; its figures stand in the tables below">
<canvas id="axis"></canvas><canvas id="rows"></canvas><canvas id="over"></canvas></div>
<noscript><p>The chart needs JavaScript; the tables do not.</p></noscript>
<p class="soft help">Wheel: zoom. Drag: move. Shift + drag: zoom into a part. Shift + wheel: move sideways. \
Double click or 0: the whole step. Click an action: follow its micro-batch. \
Keys: + &minus; &larr; &rarr; or W S A D{memory_key}, Esc.</p>
<h2>Ranks</h2>
<div class="scroll">{ranks}</div>
<details{stages_open}><summary>Stages</summary><div class="scroll">{stages}</div></details>
<div id="tip"></div>
<script type="application/json" id="plan">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the page."""
    timeline = replay(plan.value, plan.file)
    request = plan.value.request
    style, script = _style(), _script()
    modelled = any(timeline.peak_memory_bytes)
    return PAGE.format(
        script_hash=_content_hash(script),
        style_hash=_content_hash(style),
        creator=escape(headline.short(plan.value.created_by)),
        title=escape(headline.title(plan.value)),
        size=headline.size(timeline),
        request=f"engine {request.engine}, effort {request.effort}, seed {request.seed}",
        figures="".join(_figures(plan.value, timeline)),
        legend="".join(_legend(timeline)),
        buttons="".join(_buttons(modelled)),
        memory_key=", M: memory" if modelled else "",
        ranks=table(*rank_rows(plan.value, timeline)),
        stages=table(*stage_rows(plan.value, timeline)),
        stages_open=" open" if len(plan.value.stages) <= 64 else "",
        style=style,
        script=script,
        data=safe_json(page_data(plan.value, timeline)),
    )


def _resource(name: str) -> str:
    return (files("octopipe_cli.export") / "viewer" / name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the script: its parts within one function."""
    return '"use strict";\n(() => {\n' + "\n".join(_resource(f"{name}.js") for name in SCRIPTS) + "})();\n"


def _style() -> str:
    """Return the style sheet with the colours of the palette in it."""
    style = _resource("viewer.css")
    for prefix, theme in (("LIGHT", LIGHT), ("DARK", DARK)):
        for name, colour in theme._asdict().items():
            style = style.replace(f"{prefix}_{name.upper()};", f"{colour};")
    return style


def _content_hash(text: str) -> str:
    """Return the source expression that admits an inline element of that content (CSP level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figures(plan: Plan, timeline: Timeline) -> Iterator[str]:
    for label, value, note in headline.figures(plan, timeline):
        yield f"<div><dt>{label}</dt><dd><b>{escape(value)}</b><small>{escape(note)}</small></dd></div>"


def _legend(timeline: Timeline) -> Iterator[str]:
    shown = {action.kind for actions in timeline.orders for action in actions}
    for kind, name in KIND_NAMES.items():
        if kind in shown or kind == IDLE or (kind == STEP_KIND and any(timeline.pipeline.step_ns)):
            yield _key(kind, name)
    if any(timeline.peak_memory_bytes):
        limited = any(limit is not None for limit in timeline.pipeline.limit_bytes)
        yield _key("state", "state of the layers")
        yield _key("memory", f"other memory{'; dashed: the limit' if limited else ''}")
    if any(len(stages) > 1 for stages in timeline.pipeline.stages_of):
        yield '<span class="soft">two tones: the stages of a rank in turn</span>'


def _key(kind: str, name: str) -> str:
    return f'<span class="key"><canvas data-kind="{kind}"></canvas>{name}</span>'


def _buttons(modelled: bool) -> Iterator[str]:
    named = [("+", "zoom in"), ("-", "zoom out"), ("0", "whole step")]
    if modelled:
        named.append(("m", "memory"))
    for key, name in named:
        yield f'<button type="button" data-key="{key}">{name}</button>'
