"""Traces written by hand, as torch.profiler lays them out."""

from __future__ import annotations

from typing import Any

from octopipe_cli.plan import Action, Orders


def event(
    name: str, start_us: float, duration_us: float, category: str = "user_annotation", tid: Any = 1
) -> dict[str, Any]:
    """Return one complete event."""
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": start_us, "dur": duration_us}


def trace(*events: dict[str, Any], base_ns: int = 0) -> dict[str, Any]:
    """Return a trace with other events around these."""
    meta = {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}}
    other = event("aten::mm", 0, 3, "cpu_op")
    message = event("PP:0SEND_F0", 5, 900)
    return {"schemaVersion": 1, "traceEvents": [meta, other, message, *events], "baseTimeNanoseconds": base_ns}


def run_of(orders: Orders, milliseconds: dict[tuple[int, str], float]) -> list[dict[str, Any]]:
    """Return a trace for each rank of a run in which each action takes its time and starts when it can.

    A record begins when the rank turns to the action, before what it waits for is there: as the runtime's do on a CPU.
    """
    last = max(action.stage for order in orders for action in order)
    done: dict[Action, float] = {}
    clock = [0.0] * len(orders)
    events: list[list[dict[str, Any]]] = [[] for _ in orders]
    at = [0] * len(orders)
    while any(place < len(order) for place, order in zip(at, orders, strict=True)):
        before = list(at)
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                action = order[at[rank]]
                needed = _needed(action, last, done)
                if needed is None:
                    break
                end = max(clock[rank], needed) + 1e3 * milliseconds[action.stage, action.kind]
                events[rank].append(event(f"PP:{action}", clock[rank], end - clock[rank]))
                done[action], clock[rank] = end, end + 1
                at[rank] += 1
        assert at != before, "the orders wait on themselves"
    return [trace(*own) for own in events]


def _needed(action: Action, last: int, done: dict[Action, float]) -> float | None:
    """Return when what an action receives is there; None where that is not known yet."""
    stage, kind, microbatch = action
    if kind == "W" or (kind == "F" and stage == 0) or (kind in "IB" and stage == last):
        return 0.0
    if kind == "F":
        return done.get(Action(stage - 1, "F", microbatch))
    found = [
        done[each] for each in (Action(stage + 1, "I", microbatch), Action(stage + 1, "B", microbatch)) if each in done
    ]
    return found[0] if found else None
