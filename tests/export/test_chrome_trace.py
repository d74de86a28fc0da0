"""Traces against the rules of the Trace Event Format (JSON Object Format)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from octopipe_cli.export import Options
from octopipe_cli.export.chrome_trace import export
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay
from tests.export.tiny import hostile, loaded, two_ranks
from tests.render.plans import MS, make_plan, one_f_one_b, v_plan, wide_plan

Event = dict[str, Any]
REQUIRED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "C": {"name", "pid", "ts", "args"},
}


def zero_length() -> Plan:
    return make_plan([0, 1, 2], one_f_one_b(3, 4), {"F": 0, "B": 20 * MS}, num_microbatches=4)


def events_of(plan: Loaded[Plan]) -> list[Event]:
    document = json.loads(export(plan, Options()), parse_float=Decimal)
    assert document["displayTimeUnit"] == "ms"
    events: list[Event] = document["traceEvents"]
    return events


def by_phase(events: list[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event["ph"]].append(event)
    return found


def nanoseconds(microseconds: Decimal | int) -> int:
    whole = Decimal(microseconds) * 1000
    assert whole == int(whole)
    return int(whole)


@pytest.mark.parametrize(
    "plan",
    [
        two_ranks(),
        hostile(),
        loaded(v_plan(step_ns=5 * MS)),
        loaded(v_plan(limit_gib=None)),
        loaded(zero_length()),
        loaded(wide_plan(4, 8)),
    ],
)
def test_the_rules_of_the_format(plan: Loaded[Plan]) -> None:
    events = events_of(plan)
    for event in events:
        assert event.keys() >= REQUIRED[event["ph"]]
        assert all(isinstance(event[key], int) for key in ("pid", "tid", "id") if key in event)
        assert all(isinstance(event[key], (int, Decimal)) for key in ("ts", "dur") if key in event)
    times = [event["ts"] for event in events if "ts" in event]
    assert times == sorted(times)
    assert all(event["ph"] == "M" for event in events[: len(events) - len(times)])  # who is who comes first
    found = by_phase(events)
    lines = defaultdict(list)
    for event in found["X"]:
        lines[event["pid"], event["tid"]].append(event)
    for line in lines.values():  # slices of a thread do not overlap
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(line))
    check_flows(found, lines)
    for event in found["C"]:
        assert all(isinstance(value, (int, Decimal)) for value in event["args"].values())


def check_flows(found: dict[str, list[Event]], lines: dict[tuple[int, int], list[Event]]) -> None:
    """Each arrow has one start and one finish, both inside slices of their thread, in order."""
    starts, ends = ({event["id"]: event for event in found[phase]} for phase in "sf")
    assert len(starts) == len(found["s"]) == len(found["f"])
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        end = ends[number]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["ts"] <= end["ts"]
        assert start["pid"] != end["pid"]
        assert end["bp"] == "e"
        source = [e for e in lines[start["pid"], 0] if e["ts"] <= start["ts"] < e["ts"] + (e["dur"] or 1)]
        target = [e for e in lines[end["pid"], 0] if e["ts"] == end["ts"]]
        assert source
        assert target


def test_times_are_exact_and_arrows_bind() -> None:
    found = by_phase(events_of(two_ranks()))
    text = export(two_ranks(), Options())
    assert '"name":"1F0","cat":"action","pid":1,"tid":0,"ts":11000.001,"dur":10000,' in text
    assert [(e["name"], nanoseconds(e["ts"])) for e in found["X"] if e["pid"] == 0] == [
        ("0F0", 0),
        ("0F1", 10_000_000),
        ("0B0", 42_000_002),
        ("0B1", 72_000_002),
        ("optimizer step", 92_000_002),
    ]
    # (from, its time, to, its time): a start stands in the last nanosecond of its slice
    arrows = {e["id"]: [e["pid"], nanoseconds(e["ts"])] for e in found["s"]}
    for event in found["f"]:
        arrows[event["id"]] += [event["pid"], nanoseconds(event["ts"])]
    assert sorted(arrows.values()) == [
        [0, 9_999_999, 1, 11_000_001],
        [0, 19_999_999, 1, 41_000_001],
        [1, 41_000_000, 0, 42_000_002],
        [1, 71_000_000, 0, 72_000_002],
    ]
    assert {e["args"]["bytes"] for e in found["s"]} == {8192, 4096}
    assert {nanoseconds(e["args"]["arrives_us"]) for e in found["f"]} == {
        11_000_001,
        21_000_001,
        42_000_002,
        72_000_002,
    }


def test_the_memory_is_the_timelines() -> None:
    plan = two_ranks()
    timeline = replay(plan.value, plan.file)
    found = by_phase(events_of(plan))["C"]
    for rank in (0, 1):
        curve = [(nanoseconds(e["ts"]), e["args"]["held"]) for e in found if e["pid"] == rank]
        wanted = [(time, Decimal(held) / 2**30) for time, held in timeline.memory_curve(rank)]
        assert [time for time, _ in curve] == [time for time, _ in wanted]
        assert all(abs(a - b) <= Decimal("5e-7") for (_, a), (_, b) in zip(curve, wanted, strict=True))
    assert max(e["args"]["held"] for e in found if e["pid"] == 0) == Decimal("0.625004")  # state, two F, a gradient


def test_ranks_are_processes_in_their_order() -> None:
    names = [e for e in events_of(two_ranks()) if e["ph"] == "M"]
    assert [e["args"] for e in names if e["name"] == "process_name"] == [{"name": "rank 0"}, {"name": "rank 1"}]
    assert [e["args"]["sort_index"] for e in names if e["name"] == "process_sort_index"] == [0, 1]
    assert names[2]["args"] == {"labels": "a100, node 0, limit 2.0 GiB"}


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("two-ranks.trace.json", export(two_ranks(), Options()))
