from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.plan import parse_orders
from octopipe_cli.profiling import trace as tracing
from octopipe_cli.profiling.trace import Observed, Timings, read_timings
from tests.profiling.traces import event, run_of, trace


def timings(folder: Path, *traces: Any) -> Timings:
    files = []
    for rank, document in enumerate(traces):
        file = folder / f"rank{rank}.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        files.append(str(file))
    return read_timings(files)


def refused(folder: Path, document: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        timings(folder, document)
    assert caught.value.file == str(folder / "rank0.json")
    return caught.value


def test_an_action_s_time_is_the_median_of_its_runs_in_ms(tmp_path: Path) -> None:
    runs = [event(f"PP:3W{microbatch}", 100 * microbatch, 1000 * time) for microbatch, time in enumerate((2, 9, 3))]
    found = timings(tmp_path, trace(*runs), trace(event("PP:4F0", 0, 1500.5)))
    assert found.observed == {(3, "W"): Observed(3.0, 3), (4, "F"): Observed(1.5005, 1)}
    assert found.warnings == []


def test_waits_are_cut_off_where_the_producer_ends_inside(tmp_path: Path) -> None:
    orders = parse_orders([["0F0 0F1 0F2 0B0 0B1 0B2"], ["1F0 1F1 1F2 1I0 1I1 1W0 1I2 1W1 1W2"]])
    times = {(0, "F"): 2.0, (0, "B"): 3.0, (1, "F"): 1.0, (1, "I"): 5.0, (1, "W"): 4.0}
    traces = run_of(orders, times)
    durations = [entry["dur"] for entry in traces[1]["traceEvents"] if entry["name"] == "PP:1F0"]
    assert durations == [3000.0]  # two of them waiting
    observed = timings(tmp_path, *traces).observed
    assert {key: round(seen.milliseconds, 2) for key, seen in observed.items()} == times
    assert {seen.runs for seen in observed.values()} == {3}


def test_clocks_that_begin_at_different_times_are_brought_together(tmp_path: Path) -> None:
    producer = trace(event("PP:0F0", 1000, 500), base_ns=10**15)
    consumer = trace(event("PP:1F0", 200, 1000), base_ns=10**15 + 10**6)  # from 1200 to 2200 on the first one's clock
    assert timings(tmp_path, producer, consumer).observed[1, "F"].milliseconds == 0.7


def test_on_a_gpu_the_kernels_of_the_main_stream_count(tmp_path: Path) -> None:
    events = [event("PP:0F0", 0, 50), event("PP:0F0", 100, 700, "gpu_user_annotation", "stream 7")]
    events.append(event("PP:0F0", 100, 600, "gpu_user_annotation", "stream 20"))
    events.append(event("PP:0B0", 900, 1400, "gpu_user_annotation", "stream 7"))
    observed = timings(tmp_path, trace(*events)).observed
    assert observed == {(0, "B"): Observed(1.4, 1), (0, "F"): Observed(0.7, 1)}


def test_bare_lists_and_gzip_are_read(tmp_path: Path) -> None:
    assert timings(tmp_path, [event("PP:0F0", 0, 1000)]).observed == {(0, "F"): Observed(1.0, 1)}
    file = tmp_path / "rank.json.gz"
    packed = gzip.compress(json.dumps(trace(event("PP:0F0", 0, 2000))).encode())
    file.write_bytes(packed)
    assert read_timings([str(file)]).observed == {(0, "F"): Observed(2.0, 1)}
    for broken in (packed[:-9], b"\x1f\x8bnothing"):
        file.write_bytes(broken)
        with pytest.raises(InputError, match="a broken gzip file"):
            read_timings([str(file)])


def test_paired_actions_are_left_out_and_told(tmp_path: Path) -> None:
    paired = event("PP:(0F1;1B0)OVERLAP_F_B", 0, 100)
    found = timings(tmp_path, trace(paired, event("PP:0F0", 0, 1000)))
    assert list(found.observed) == [(0, "F")]
    assert found.warnings == [f"{tmp_path / 'rank0.json'}: 1 records of paired actions (OVERLAP_F_B) left out"]


@pytest.mark.parametrize(
    ("document", "message", "path"),
    [
        ("", "the file is empty", None),
        ("{", "not valid JSON: Input data was truncated", None),
        ({"events": []}, "no trace: the key traceEvents is missing", "$"),
        ({"traceEvents": 3}, "no trace: Expected `array`, got `int`", "$.traceEvents"),
        ({"traceEvents": [{}, 4]}, "no trace: Expected `object`, got `int`", "$.traceEvents[1]"),
        (trace(), "no action of PyTorch's pipelining runtime in this trace", "$.traceEvents"),
        (trace(event("PP:0F0", 0, -1)), "a record of PP:0F0 without a usable dur", "$.traceEvents[3].dur"),
        (
            {"traceEvents": [{"ph": "X", "name": "PP:0F0", "ts": "1", "dur": 1}]},
            "a record of PP:0F0 without a usable ts",
            "$.traceEvents[0].ts",
        ),
    ],
)
def test_broken_traces_are_refused(tmp_path: Path, document: Any, message: str, path: str | None) -> None:
    error = refused(tmp_path, document)
    assert (error.message, error.path) == (message, path)


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("MAX_OBJECTS", 5, "too many events"),
        ("MAX_ACTIONS", 1, "too many actions"),
        ("MAX_BYTES", 300, "the file is too large"),
    ],
)
def test_what_would_take_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, message: str
) -> None:
    document = trace(event("PP:0F0", 0, 1), event("PP:0F1", 2, 1))
    monkeypatch.setattr(tracing, limit, most)
    assert refused(tmp_path, document).message == message
    packed = tmp_path / "rank.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(InputError, match=message):
        read_timings([str(packed)])


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InputError, match="no such file"):
        read_timings(["none.json"])
