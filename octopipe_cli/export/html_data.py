"""What the page's script draws, as JSON that can stand inside the page."""

from __future__ import annotations

import json
from typing import Any, Final

from octopipe_cli.export import headline
from octopipe_cli.export.palette import FILLS
from octopipe_cli.export.rows import step_of
from octopipe_cli.plan import Plan
from octopipe_cli.render.glyphs import KIND_NAMES
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import kinds_text, stage_kinds, visible

#: Characters that could end a script element or a line of script, as JSON writes them otherwise.
UNSAFE: Final = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def safe_json(document: Any) -> str:
    """Return a document as JSON that can stand inside a script element, whatever its texts are."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.translate({ord(character): written for character, written in UNSAFE.items()})


def page_data(plan: Plan, timeline: Timeline) -> dict[str, Any]:
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
