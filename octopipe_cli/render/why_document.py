"""`show --why --format json`: the explanation as a document."""

from __future__ import annotations

from typing import Any

from octopipe_cli.explain import BoundSplit, Explanation, Wait


def why_document(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as a document for machines, in ns and bytes."""
    slow = explanation.bottleneck
    return {
        "bottleneck": {
            "rank": slow.rank,
            "before_first_ns": slow.before_first_ns,
            "busy_ns": slow.busy_ns,
            "between_ns": slow.between_ns,
            "step_ns": slow.step_ns,
            "after_last_ns": slow.after_last_ns,
            "mean_load_ns": slow.mean_ns,
        },
        "bound": _bound_document(explanation.bounds),
        "critical_path": _path_document(explanation),
        "bubbles": [_wait_document(wait) for wait in explanation.waits],
        "full_ranks": [
            {"rank": full.rank, "peak_memory_bytes": full.peak_bytes, "memory_limit_bytes": full.limit_bytes}
            for full in explanation.full
        ],
        "would_help": [
            {
                "change": change.what,
                "stages": list(change.stages),
                "step_time_ns": change.step_time_ns,
                "gain_ns": change.gain_ns,
                "at_best_ns": change.at_best_ns,
            }
            for change in explanation.changes
        ],
    }


def _bound_document(bounds: BoundSplit) -> dict[str, Any]:
    return {
        "step_time_ns": bounds.certified_ns,
        "scope": bounds.scope,
        "argument": bounds.argument,
        "plan_ns": bounds.plan.total_ns,
        "plan_parts": bounds.plan._asdict(),
        "plan_without_limits_ns": bounds.unlimited_ns,
        "order_ns": bounds.order_ns,
        "partition_ns": bounds.partition_ns,
    }


def _path_document(explanation: Explanation) -> dict[str, Any]:
    path = explanation.path
    graph = path.graph
    return {
        "work_ns": path.work_ns,
        "transfer_ns": path.transfer_ns,
        "step_ns": path.step_ns,
        "last_rank": path.last_rank,
        "work_by_kind_ns": path.work_by_kind_ns(),
        "work_by_rank_ns": path.work_by_rank_ns(),
        "actions": [str(graph.actions[number]) for number in path.numbers],
        "runs": [
            {
                "first": str(run.first),
                "last": str(run.last),
                "ranks": list(run.ranks),
                "num_actions": run.num_actions,
                "start_ns": run.start_ns,
                "end_ns": run.end_ns,
                "transfer_ns": run.transfer_ns,
            }
            for run in path.runs()
        ],
    }


def _wait_document(wait: Wait) -> dict[str, Any]:
    ready = wait.ready
    return {
        "rank": wait.rank,
        "place": wait.place,
        "count": wait.count,
        "total_ns": wait.total_ns,
        "longest_ns": wait.longest_ns,
        "from_ns": wait.from_ns,
        "action": None if wait.action is None else str(wait.action),
        "waits_for": None if wait.source is None else str(wait.source),
        "waits_for_rank": wait.source_rank,
        "ready": None
        if ready is None
        else {
            "action": str(ready.action),
            "duration_ns": ready.duration_ns,
            "lacking_bytes": ready.lacking_bytes,
        },
    }
