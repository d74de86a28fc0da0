"""``html``: one self-contained page with a chart to zoom and to point into; no network, no libraries.

What comes from files reaches the page in two ways only: as escaped text, and as JSON in which nothing can end the
element it stands in. The page's Content-Security-Policy admits its own style sheet and script, by their digests, and
nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from typing import Any, Final

from octopipe_cli.export import Options, headline
from octopipe_cli.export.palette import DARK, FILLS, LIGHT
from octopipe_cli.export.rows import step_of
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.render.glyphs import IDLE, KIND_NAMES, STEP_KIND
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import gibibyte_text, kinds_text, percent_text, stage_kinds, time_column, visible

#: Characters that could end a script element or a line of script, as JSON writes them otherwise.
UNSAFE: Final = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
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
    style, script = _style(), _resource("viewer.js")
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
        ranks=_table(*_rank_rows(plan.value, timeline)),
        stages=_table(*_stage_rows(plan.value, timeline)),
        stages_open=" open" if len(plan.value.stages) <= 64 else "",
        style=style,
        script=script,
        data=safe_json(_document(plan.value, timeline)),
    )


def safe_json(document: Any) -> str:
    """Return a document as JSON that can stand inside a script element, whatever its texts are."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.translate({ord(character): written for character, written in UNSAFE.items()})


def _resource(name: str) -> str:
    return (files("octopipe_cli.export") / "viewer" / name).read_text(encoding="utf-8")


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
        yield _key("state", "state of the layers") + _key("memory", "other memory")
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


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table; the last column holds text, the others numbers."""
    wide = len(heads) - 1
    parts = ["<table><thead><tr>"]
    parts += [f"<th{_wide(at == wide)}>{escape(head)}</th>" for at, head in enumerate(heads)]
    parts.append("</tr></thead><tbody>")
    for row in rows:
        cells = [f"<td{_wide(at == wide)}>{escape(cell)}</td>" for at, cell in enumerate(row)]
        parts.append(f"\n<tr>{''.join(cells)}</tr>")
    return "".join(parts) + "</tbody></table>"


def _wide(wide: bool) -> str:
    return ' class="wide"' if wide else ""


def _rank_rows(plan: Plan, timeline: Timeline) -> tuple[list[str], list[list[str]]]:
    step, pipeline = timeline.step_time_ns, timeline.pipeline
    unit, busy = time_column(timeline.busy_ns)
    heads = ["rank", f"busy {unit}", "busy %", "bubble before %", "between %", "after %", "step %"]
    modelled = any(timeline.peak_memory_bytes)
    heads += ["state GiB", "peak GiB", "limit GiB", "free GiB"] if modelled else []
    rows = []
    for rank, planned in enumerate(plan.ranks):
        cells = [str(rank), busy[rank], percent_text(timeline.busy_ns[rank], step)]
        cells += [percent_text(part, step) for part in (*timeline.bubbles(rank), planned.step_ns)]
        if modelled:
            peak, limit = timeline.peak_memory_bytes[rank], planned.memory_limit_bytes
            cells += [gibibyte_text(pipeline.state_bytes(rank)), gibibyte_text(peak)]
            cells += ["none", ""] if limit is None else [gibibyte_text(limit), gibibyte_text(limit - peak)]
        stages = ", ".join(map(str, pipeline.stages_of[rank]))
        rows.append([*cells, f"{visible(planned.hardware)}, node {planned.node}; stages {stages}"])
    return [*heads, "what it is"], rows


def _stage_rows(plan: Plan, timeline: Timeline) -> tuple[list[str], list[list[str]]]:
    columns = [[stage.action_ns.get(kind) for stage in plan.stages] for kind in ("F", "I", "W", "B")]
    unit = time_column([time or 0 for column in columns for time in column])[0]
    heads = ["stage", "rank", "first layer", "layers", *(f"{kind} {unit}" for kind in ("F", "I", "W", "B")), "kinds"]
    rows = []
    written = time_column([time or 0 for column in columns for time in column])[1]
    number = len(plan.stages)
    for at, stage in enumerate(plan.stages):
        first, stop = stage.layers
        times = [written[c * number + at] if column[at] is not None else "" for c, column in enumerate(columns)]
        kinds = visible(kinds_text(stage_kinds(stage.kinds))) + (" (recomputed)" if stage.recompute else "")
        rows.append([str(at), str(stage.rank), str(first), str(stop - first), *times, kinds])
    return heads, rows


def _document(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """Return what the script draws: times in ns, sizes in bytes."""
    bound, step = plan.bound.step_time_ns, timeline.step_time_ns
    stages = [
        {
            "layers": stage.layers,
            "kinds": visible(kinds_text(stage_kinds(stage.kinds))),
            "recompute": stage.recompute,
            "forward_ns": stage.transfer_ns.forward,
            "backward_ns": stage.transfer_ns.backward,
            "output": stage.bytes.output,
            "input": stage.bytes.input,
        }
        for stage in plan.stages
    ]
    return {
        "step_ns": step,
        "bound_ns": bound if 0 < bound <= step else None,
        "fills": FILLS,
        "names": {kind: name for kind, name in KIND_NAMES.items() if kind},
        "stages": stages,
        "ranks": [_rank_document(plan, timeline, rank) for rank in range(len(plan.ranks))],
    }


def _rank_document(plan: Plan, timeline: Timeline, rank: int) -> dict[str, Any]:
    planned = plan.ranks[rank]
    starts, ends = timeline.start_ns[rank], timeline.end_ns[rank]
    curve = timeline.memory_curve(rank) if any(timeline.peak_memory_bytes) else []
    step_start, step_end = step_of(timeline, rank)
    return {
        "where": f"{headline.short(planned.hardware, 30)}, node {planned.node}",
        "limit": planned.memory_limit_bytes,
        "state": timeline.pipeline.state_bytes(rank),
        "peak": timeline.peak_memory_bytes[rank],
        "stages": timeline.pipeline.stages_of[rank],
        "step_start": step_start,
        "step_end": step_end,
        "tokens": " ".join(map(str, timeline.orders[rank])),
        "start": starts,
        "length": [end - start for start, end in zip(starts, ends, strict=True)],
        "memory": {"at": [time for time, _ in curve], "held": [held for _, held in curve]},
    }
