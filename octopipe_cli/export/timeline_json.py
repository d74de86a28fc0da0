"""``json``: the timeline as a document, an action a line."""

from __future__ import annotations

import json

from octopipe_cli.export import Options
from octopipe_cli.export.rows import rows_of, step_of
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the timeline: times in whole ns from the start of the step, ``layers`` [a, b] = layers a to b - 1."""
    timeline = replay(plan.value, plan.file)
    head = {
        "profile": plan.value.inputs.profile.name,
        "cluster": plan.value.inputs.cluster.name,
        "num_microbatches": plan.value.request.num_microbatches,
        "step_time_ns": timeline.step_time_ns,
    }
    ranks = []
    for rank, planned in enumerate(plan.value.ranks):
        start, end = step_of(timeline, rank)
        ranks.append(
            {
                "rank": rank,
                "hardware": planned.hardware,
                "node": planned.node,
                "busy_ns": timeline.busy_ns[rank],
                "peak_memory_bytes": timeline.peak_memory_bytes[rank],
                "optimizer_start_ns": start,
                "optimizer_end_ns": end,
            }
        )
    actions = [
        {
            "rank": row.rank,
            "stage": row.action.stage,
            "kind": row.action.kind,
            "microbatch": row.action.microbatch,
            "start_ns": row.start_ns,
            "end_ns": row.end_ns,
            "layers": [row.first_layer, row.end_layer],
        }
        for row in rows_of(plan.value, timeline)
    ]
    parts = [f'  "{key}": {json.dumps(value)}' for key, value in head.items()]
    for key, items in (("ranks", ranks), ("actions", actions)):
        parts.append(f'  "{key}": [\n    ' + ",\n    ".join(map(json.dumps, items)) + "\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"
