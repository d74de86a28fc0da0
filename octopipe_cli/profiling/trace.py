"""Traces of a pipeline step, as torch.profiler writes them: how long each stage's F, I, W and B take.

PyTorch's pipelining runtime wraps every action in a record named ``PP:`` and its token (``PP:0F3``,
``PP:2W1``; torch.distributed.pipelining.schedules, _get_profiler_function_name). On a GPU the profiler writes the same
names over the kernels (category ``gpu_user_annotation``): those count where a file has them. On a CPU the record also
covers the wait for what the action receives; that part is cut off where the traces of both ranks have one clock.
"""

from __future__ import annotations

import gzip
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeGuard, cast

import msgspec

from octopipe_cli.errors import InputError
from octopipe_cli.formats import MAX_FILE_BYTES, read_bytes, shown_file
from octopipe_cli.formats import show as quoted
from octopipe_cli.plan import ActionKind

NAME: Final = re.compile(r"PP:(\d{1,7})([FBIW])(\d{1,7})")
PAIRED: Final = "OVERLAP_F_B"
KERNELS: Final = "gpu_user_annotation"
#: Traces are larger than other files; with these limits even one made to is read within 1 GiB of memory.
MAX_BYTES: Final = 8 * MAX_FILE_BYTES
MAX_OBJECTS: Final = 6 * 10**6
MAX_ACTIONS: Final = 10**6
#: More nanoseconds or microseconds than any clock has counted.
LATEST: Final = 10**19
REMEDY: Final = "trace fewer steps, without stacks and shapes"

Scalar = str | int | float | bool | None


class _Event(msgspec.Struct, gc=False):
    """What matters of an event; Chrome's format leaves nearly everything free."""

    name: Scalar = ""
    ph: Scalar = ""
    cat: Scalar = ""
    ts: Scalar = None
    dur: Scalar = None
    pid: Scalar = None
    tid: Scalar = None


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 (its name in the file)
    baseTimeNanoseconds: Scalar = 0  # noqa: N815


class Span(NamedTuple):
    """One run of an action, in microseconds."""

    stage: int
    kind: ActionKind
    microbatch: int
    start_us: float
    end_us: float


class Observed(NamedTuple):
    """How long one kind of action of a stage takes: the median of its runs, and how many there were."""

    milliseconds: float
    runs: int


class Timings(NamedTuple):
    """What traces say: by stage and kind of action, and what their reader should know."""

    observed: dict[tuple[int, ActionKind], Observed]
    warnings: list[str]


def read_timings(files: Sequence[str]) -> Timings:
    """Return how long the actions of each stage take in the traces of one run.

    Parameters
    ----------
    files
        One a rank, or one for all; plain or gzipped. Several steps, and several replicas, are more runs of the same
        actions.

    Raises
    ------
    InputError
        Where a file is no trace, or holds no action of the pipelining runtime.
    """
    spans: list[Span] = []
    warnings: list[str] = []
    on_cpu = False
    for file in files:
        trace = _read(file)
        own, kernels = _spans(trace, file)
        spans += own
        on_cpu = on_cpu or not kernels
        paired = sum(PAIRED in str(event.name) for event in trace.traceEvents)
        if paired:
            warnings.append(f"{shown_file(file)}: {paired} records of paired actions ({PAIRED}) left out")
    if on_cpu:
        spans = _without_waits(spans)
    runs: dict[tuple[int, ActionKind], list[float]] = defaultdict(list)
    for span in spans:
        runs[span.stage, span.kind].append((span.end_us - span.start_us) / 1e3)
    observed = {key: Observed(statistics.median(values), len(values)) for key, values in sorted(runs.items())}
    return Timings(observed, warnings)


def _read(file: str) -> _Trace:
    data = _bytes(file)
    shown = shown_file(file)
    first = re.search(rb"[^ \t\r\n]", data)
    if first is None:
        raise InputError("the file is empty", file=shown, expected="a trace in Chrome's format")
    if data.count(b"{") > MAX_OBJECTS:
        raise InputError("too many events", file=shown, expected=f"at most {MAX_OBJECTS} objects", remedy=REMEDY)
    try:
        if first[0] == b"[":  # Chrome's format may also be the bare list
            return _Trace(msgspec.json.decode(data, type=list[_Event]))
        return msgspec.json.decode(data, type=_Trace)
    except msgspec.ValidationError as error:
        text = str(error)
        remedy = "give the file that torch.profiler's export_chrome_trace wrote"
        if "traceEvents" in text and "missing" in text:
            raise InputError("no trace: the key traceEvents is missing", file=shown, path="$", remedy=remedy) from None
        what, _, place = text.partition(" - at `")
        raise InputError(f"no trace: {what}", file=shown, path=place.rstrip("`") or "$", remedy=remedy) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            f"not valid JSON: {error}", file=shown, remedy="was the run stopped before the trace was complete?"
        ) from None


def _bytes(file: str) -> bytes | bytearray:
    packed = read_bytes(file, MAX_BYTES, REMEDY)
    data = _unpacked(packed, file) if packed[:2] == b"\x1f\x8b" else packed
    if len(data) > MAX_BYTES:
        raise InputError(
            "the file is too large", file=shown_file(file), expected=f"at most {MAX_BYTES >> 20} MiB", remedy=REMEDY
        )
    return data


def _unpacked(packed: bytes, file: str) -> bytearray:
    """Return what a gzip file holds, cut off somewhere beyond the limit."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    data = bytearray()
    try:
        for at in range(0, len(packed), 2**16):  # a piece grows a thousandfold at the most
            data += unpacker.decompress(packed[at : at + 2**16])
            if unpacker.eof or len(data) > MAX_BYTES:
                return data
        raise gzip.BadGzipFile("it ends too early")
    except (OSError, zlib.error) as error:
        raise InputError(f"a broken gzip file: {error}", file=shown_file(file)) from None


def _spans(trace: _Trace, file: str) -> tuple[list[Span], bool]:
    """Return the actions of a trace, and whether their times are those of GPU kernels."""
    found = []
    for index, event in enumerate(trace.traceEvents):
        match = NAME.fullmatch(event.name) if isinstance(event.name, str) else None
        if match is not None and event.ph in ("X", ""):
            found.append((match, event, index))
        if len(found) > MAX_ACTIONS:
            raise InputError(
                "too many actions", file=shown_file(file), expected=f"at most {MAX_ACTIONS}", remedy=REMEDY
            )
    if not found:
        raise InputError(
            "no action of PyTorch's pipelining runtime in this trace",
            file=shown_file(file),
            path="$.traceEvents",
            found=f"{len(trace.traceEvents)} events",
            expected="records named PP:0F0, PP:0I0, ...",
            remedy="trace whole steps of a schedule that runs on the runtime (not Schedule1F1B or ScheduleGPipe, whose"
            " records name no stage)",
        )
    kernels = any(event.cat == KERNELS for _, event, _ in found)
    if kernels:
        found = _on_main_stream([entry for entry in found if entry[1].cat == KERNELS])
    base = trace.baseTimeNanoseconds
    base_us = base / 1e3 if _is_number(base) else 0.0
    spans = []
    for match, event, index in found:
        start, duration = (_number(event, key, index, file) for key in ("ts", "dur"))
        action = cast(ActionKind, match[2])
        spans.append(Span(int(match[1]), action, int(match[3]), base_us + start, base_us + start + duration))
    return spans, kernels


def _on_main_stream(found: list[tuple[re.Match[str], _Event, int]]) -> list[tuple[re.Match[str], _Event, int]]:
    """Return the records of the stream with most of their time: an action's messages run on streams of their own."""
    busy: dict[tuple[str, str], float] = defaultdict(float)
    for _, event, _ in found:
        busy[str(event.pid), str(event.tid)] += event.dur if _is_number(event.dur) else 0.0
    main = max(busy, key=lambda stream: (busy[stream], stream))
    return [entry for entry in found if (str(entry[1].pid), str(entry[1].tid)) == main]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LATEST


def _number(event: _Event, key: str, index: int, file: str) -> float:
    value = getattr(event, key)
    if not _is_number(value) or (key == "dur" and value < 0):
        raise InputError(
            f"a record of {event.name} without a usable {key}",
            file=shown_file(file),
            path=f"$.traceEvents[{index}].{key}",
            found=quoted(value),
            expected="microseconds",
            remedy="give whole traces: records that were cut off have no duration",
        )
    return float(value)


def _without_waits(spans: Iterable[Span]) -> list[Span]:
    """Return the spans, each starting only when what it waits for has ended, where that is inside it.

    The runs of an action in order of time are those of the steps, for producer and consumer alike.
    """
    runs: dict[tuple[int, str, int], list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_us):
        runs[span.stage, span.kind, span.microbatch].append(span)
    found = []
    for (stage, kind, microbatch), own in runs.items():
        producers = _producers(runs, stage, kind, microbatch)
        if len(producers) != len(own):
            found += own
            continue
        for span, producer in zip(own, producers, strict=True):
            inside = span.start_us < producer.end_us < span.end_us
            found.append(span._replace(start_us=producer.end_us) if inside else span)
    return found


def _producers(runs: Mapping[tuple[int, str, int], list[Span]], stage: int, kind: str, microbatch: int) -> list[Span]:
    """Return the runs of the action whose result this one receives; W receives nothing."""
    if kind == "F":
        return runs.get((stage - 1, "F", microbatch), [])
    if kind == "W":
        return []
    return runs.get((stage + 1, "I", microbatch)) or runs.get((stage + 1, "B", microbatch), [])
