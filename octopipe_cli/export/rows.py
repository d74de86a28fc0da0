"""What an export tells of a timeline: a row an action, a transfer between ranks, the time after the last action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from octopipe_cli.plan import Action, Plan
from octopipe_cli.simulate import Timeline


class Row(NamedTuple):
    """One action: where, when, which layers (first to end - 1)."""

    rank: int
    action: Action
    start_ns: int
    end_ns: int
    first_layer: int
    end_layer: int


class Transfer(NamedTuple):
    """A boundary tensor on its way to another rank: from the end of one row to its arrival, used by another row."""

    sender: Row
    receiver: Row
    size_bytes: int
    arrival_ns: int


def rows_of(plan: Plan, timeline: Timeline) -> Iterator[Row]:
    """Yield the actions, rank by rank, in each rank's order."""
    for rank, actions in enumerate(timeline.orders):
        for action, start, end in zip(actions, timeline.start_ns[rank], timeline.end_ns[rank], strict=True):
            yield Row(rank, action, start, end, *plan.stages[action.stage].layers)


def transfers_of(plan: Plan, timeline: Timeline) -> Iterator[Transfer]:
    """Yield what goes from rank to rank, in the order of the senders; what stays on its rank is none."""
    rows = {row.action: row for row in rows_of(plan, timeline)}
    for row in rows.values():
        stage, kind, microbatch = row.action
        if kind == "W":
            continue
        other = stage + 1 if kind == "F" else stage - 1
        if not 0 <= other < len(plan.stages) or plan.stages[other].rank == row.rank:
            continue
        whole = Action(other, "B", microbatch)
        back = whole if whole in rows else Action(other, "I", microbatch)
        receiver = rows[Action(other, "F", microbatch) if kind == "F" else back]
        cost = timeline.pipeline.cost(stage, microbatch)
        size = cost.bytes.output if kind == "F" else cost.bytes.input
        lag = cost.forward_transfer_ns if kind == "F" else cost.backward_transfer_ns
        yield Transfer(row, receiver, size, row.end_ns + lag)


def step_of(timeline: Timeline, rank: int) -> tuple[int, int]:
    """Return start and end, in ns, of a rank's gradient reduction and optimizer step (its `step_ms`)."""
    last = timeline.last_end_ns(rank)
    return last, last + timeline.pipeline.step_ns[rank]
