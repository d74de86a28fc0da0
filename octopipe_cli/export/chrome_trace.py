"""``chrome-trace``: the Trace Event Format, for Perfetto and chrome://tracing.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (JSON Object Format). Times are in
microseconds; written here as exact decimals of the whole nanoseconds, in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from octopipe_cli.export import Options
from octopipe_cli.export.rows import Row, Transfer, rows_of, step_of, transfers_of
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.render.glyphs import KIND_NAMES
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import GIBIBYTE, decimal_text, kinds_text, stage_kinds, visible

#: Names of catapult's own palette (tr.b.ColorScheme), the same hues as our charts; Perfetto picks by event name.
COLOURS: Final = {"F": "rail_response", "I": "rail_idle", "W": "rail_load", "B": "detailed_memory_dump"}
#: At one instant: first the slices, then the arrows into and out of them, then the counters.
PHASES: Final = {"X": 0, "f": 1, "s": 2, "C": 3}

Event = dict[str, Any]


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the plan's timeline as a trace: a process a rank, a slice an action, an arrow a transfer."""
    return trace_of(plan.value, replay(plan.value, plan.file))


def trace_of(plan: Plan, timeline: Timeline) -> str:
    """Return a timeline of a plan's orders, predicted or measured, as a trace."""
    events = [*_slices(plan, timeline), *_arrows(plan, timeline), *_memory(timeline)]
    events.sort(key=lambda pair: (pair[0], PHASES[pair[1]["ph"]]))
    encode = msgspec.json.Encoder().encode
    lines = [encode(event).decode() for event in (*_names(plan, timeline), *(event for _, event in events))]
    about = {
        "created_by": plan.created_by,
        "profile": visible(plan.inputs.profile.name),
        "cluster": visible(plan.inputs.cluster.name),
        "step_time_us": _microseconds(timeline.step_time_ns),
    }
    head = f'{{"displayTimeUnit": "ms", "otherData": {encode(about).decode()}, "traceEvents": [\n'
    return head + ",\n".join(lines) + "\n]}\n"


def _microseconds(time_ns: int) -> msgspec.Raw:
    """Return a time in microseconds as a JSON number, to the nanosecond."""
    whole, rest = divmod(time_ns, 1000)
    return msgspec.Raw(f"{whole}.{rest:03d}".rstrip("0").rstrip(".").encode() if rest else str(whole).encode())


def _gibibytes(size_bytes: int) -> msgspec.Raw:
    return msgspec.Raw(decimal_text(size_bytes, GIBIBYTE, 6).encode())


def _names(plan: Plan, timeline: Timeline) -> Iterator[Event]:
    """Yield the metadata: what a rank is called, where it stands, what it is."""
    for rank, planned in enumerate(plan.ranks):
        limit = planned.memory_limit_bytes
        label = f"{visible(planned.hardware)}, node {planned.node}"
        if limit is not None:
            label += f", limit {decimal_text(limit, GIBIBYTE, 1)} GiB"
        about: list[tuple[str, Event]] = [
            ("process_name", {"name": f"rank {rank}"}),
            ("process_sort_index", {"sort_index": rank}),
            ("process_labels", {"labels": label}),
            ("thread_name", {"name": "actions"}),
        ]
        for name, args in about:
            yield {"ph": "M", "name": name, "pid": rank, "tid": 0, "args": args}


def _slices(plan: Plan, timeline: Timeline) -> Iterator[tuple[int, Event]]:
    """Yield (start, slice) of the actions and of each rank's optimizer step."""
    kinds = [visible(kinds_text(stage_kinds(stage.kinds))) for stage in plan.stages]
    for row in rows_of(plan, timeline):
        stage, kind, microbatch = row.action
        args = {
            "kind": KIND_NAMES[kind],
            "stage": stage,
            "microbatch": microbatch,
            "first_layer": row.first_layer,
            "num_layers": row.end_layer - row.first_layer,
            "layers": kinds[stage],
            **_sizes(plan, row),
        }
        yield row.start_ns, _slice(row.rank, str(row.action), row.start_ns, row.end_ns, COLOURS[kind], args)
    for rank in range(timeline.pipeline.num_ranks):
        start, end = step_of(timeline, rank)
        if end > start:
            yield start, _slice(rank, "optimizer step", start, end, "generic_work", {})


def _slice(rank: int, name: str, start_ns: int, end_ns: int, colour: str, args: Event) -> Event:
    times = {"ts": _microseconds(start_ns), "dur": _microseconds(end_ns - start_ns)}
    return {"ph": "X", "name": name, "cat": "action", "pid": rank, "tid": 0, **times, "cname": colour, "args": args}


def _sizes(plan: Plan, row: Row) -> Event:
    """Return what the action's stage holds for a micro-batch, in bytes, where the profile has it."""
    sizes = plan.stages[row.action.stage].bytes
    named = {
        "held_bytes": sizes.held,
        "weight_bytes": sizes.weight,
        "workspace_bytes": sizes.workspace,
        "input_bytes": sizes.input,
        "output_bytes": sizes.output,
    }
    return {name: size for name, size in named.items() if size}


def _arrows(plan: Plan, timeline: Timeline) -> Iterator[tuple[int, Event]]:
    """Yield (time, flow event): from within the last nanosecond of the sender to the start of the receiver."""
    for number, transfer in enumerate(transfers_of(plan, timeline)):
        sender, receiver = transfer.sender, transfer.receiver
        leaves = max(sender.start_ns, sender.end_ns - 1)  # a slice no longer encloses its own end
        yield leaves, _arrow("s", number, transfer, sender.rank, leaves)
        yield receiver.start_ns, {**_arrow("f", number, transfer, receiver.rank, receiver.start_ns), "bp": "e"}


def _arrow(phase: str, number: int, transfer: Transfer, rank: int, time_ns: int) -> Event:
    forward = transfer.sender.action.kind == "F"
    name = "activations" if forward else "gradients"
    args = {"bytes": transfer.size_bytes, "arrives_us": _microseconds(transfer.arrival_ns)}
    where = {"pid": rank, "tid": 0, "ts": _microseconds(time_ns)}
    return {"ph": phase, "id": number, "name": name, "cat": "transfer", **where, "args": args}


def _memory(timeline: Timeline) -> Iterator[tuple[int, Event]]:
    """Yield (time, counter) wherever a rank's memory changes."""
    if not any(timeline.peak_memory_bytes):
        return
    for rank in range(timeline.pipeline.num_ranks):
        for time, held in timeline.memory_curve(rank):
            args = {"held": _gibibytes(held)}
            yield time, {"ph": "C", "name": "memory (GiB)", "pid": rank, "ts": _microseconds(time), "args": args}
