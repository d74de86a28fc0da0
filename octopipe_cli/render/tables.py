"""The tables of `compare` and `profile show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from octopipe_cli.profile import PASSES, Kind, KindWork, Profile, Times
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, without, wrapped
from octopipe_cli.words import count_text, decimal_text, gibibyte_text, percent_text, size_text, time_column

SIZES: Final = {
    "state": "state_bytes",
    "activation": "activation_bytes",
    "weight act.": "weight_activation_bytes",
    "output": "output_bytes",
    "workspace": "workspace_bytes",
}


SPAN: Final = "span"
#: Columns of `compare` that go where there is no room, those with the same value in every row first.
LEFT_OUT: Final = (
    "recompute",
    "span ms",
    "span s",
    "span µs",
    "span us",
    "span ns",
    "fits",
    "peak GiB",
    "stages a rank",
)


def compare_table(rows: Sequence[Mapping[str, Any]], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of schedules, in the order given, the fastest that fits in bold.

    Each row has schedule, partition, stages_per_rank, recompute, step_time_ns, span_ns, bubble_ratio,
    peak_memory_bytes (of each rank, or the largest), fits, and speedup: how many times as fast the plan is, None where
    there is no plan.
    """
    columns = _compare_columns(rows, glyphs)
    may_go = [head for name in LEFT_OUT for head in columns if head.startswith(name)]
    kept = without(columns, sorted(may_go, key=lambda head: len(set(columns[head])) > 1), width)
    fitting = [row["step_time_ns"] for row in rows if row["fits"]]
    best = min(fitting, default=None)
    styles = ["dim" if not row["fits"] else "bold" if row["step_time_ns"] == best else "" for row in rows]
    align = "".join("l" if head in ("schedule", "partition", "recompute", "fits") else "r" for head in kept)
    lines = grid(list(kept), list(zip(*kept.values(), strict=True)), align, width, styles)
    return joined([*lines, *_what_is_left_out(columns, kept, width)])


def _compare_columns(rows: Sequence[Mapping[str, Any]], glyphs: Glyphs) -> dict[str, list[str]]:
    """Return the columns, by their heads."""
    step_unit, steps = time_column(row["step_time_ns"] for row in rows)
    span_unit, spans = time_column(row["span_ns"] for row in rows)
    peaks = [row["peak_memory_bytes"] for row in rows]
    columns = {
        "schedule": [glyphs.name(row["schedule"]) for row in rows],
        "partition": [glyphs.name(row["partition"]) for row in rows],
        "stages a rank": [str(row["stages_per_rank"]) for row in rows],
        "recompute": [_recompute_text(row["recompute"]) for row in rows],
        f"step {glyphs.plain(step_unit)}": steps,
        f"span {glyphs.plain(span_unit)}": spans,
        "bubble %": [_ratio_text(row["bubble_ratio"], 100, 1) for row in rows],
        "peak GiB": [gibibyte_text(peak if isinstance(peak, int) else max(peak, default=0)) for peak in peaks],
        "fits": ["yes" if row["fits"] else "NO" for row in rows],
    }
    if any(row["speedup"] is not None for row in rows):
        speedups = [row["speedup"] for row in rows]
        columns["plan faster by"] = ["" if each is None else f"{_ratio_text(each, 1, 3)}x" for each in speedups]
    return columns


def _what_is_left_out(
    columns: Mapping[str, Sequence[str]], kept: Mapping[str, Sequence[str]], width: int
) -> Iterator[Text]:
    """Yield what columns say for which there was no room: their value where it is the same in every row."""
    said = []
    for head, cells in columns.items():
        if head not in kept:
            said.append(f"{head} {cells[0]} in every row" if len(set(cells)) == 1 else f"{head} in wider terminals")
    if said:
        yield from wrapped("not shown: ", ", ".join(said), width)


def _recompute_text(recompute: object) -> str:
    return {True: "yes", False: "no"}[recompute] if isinstance(recompute, bool) else str(recompute)


def _ratio_text(ratio: float, times: int, digits: int) -> str:
    """Return a ratio as a decimal; ratios are floats already, so this one is rounded as floats are."""
    return f"{ratio * times:.{digits}f}"


def profile_table(profile: Profile, glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the tables of a profile: for each hardware the times by kind, then parameters and sizes by kind.

    Times and parameters are of one layer, with the kind's share of the model's whole time; the last line is the whole
    model. Sizes are of one layer and, but for the state, one micro-batch.
    """
    counts = Counter(profile.layer_kinds)
    names = [name for name in profile.kinds if name in counts]
    lines: list[Text] = []
    for hardware in profile.hardware:
        lines += _times_table(profile, hardware, names, counts, glyphs, width)
        lines.append(Text())
    return joined([*lines, *_sizes_table(profile, names, counts, glyphs, width)])


def _times_table(
    profile: Profile, hardware: str, names: Sequence[str], counts: Mapping[str, int], glyphs: Glyphs, width: int
) -> list[Text]:
    heads = ["kind", "layers", "F ms", "I ms", "W ms", "B ms", "time %"]
    times = {name: profile.kinds[name].times[hardware] for name in names}
    with_step = any(time.step_ms for time in times.values())
    columns = {name: _columns_ns(time, with_step) for name, time in times.items()}
    heads += ["step ms"] if with_step else []
    total = [sum(columns[name][at] * counts[name] for name in names) for at in range(len(heads) - 3)]
    work = {name: (columns[name][0] + columns[name][3]) * counts[name] for name in names}
    rows = [
        [glyphs.name(name), str(counts[name]), *_times_row(columns[name], work[name], sum(work.values()))]
        for name in names
    ]
    rows.append(["all", str(sum(counts[name] for name in names)), *_times_row(total, 1, 1)])
    table = grid(heads, rows, "l" + "r" * (len(heads) - 1), width)
    return [Text(f"times on {glyphs.name(hardware)}, a layer and micro-batch", style="bold"), *table]


def _columns_ns(times: Times, with_step: bool) -> list[int]:
    """Return F, I, W, B and, where any kind has one, the optimizer step in whole ns."""
    parts = [times.forward_ms, times.backward_input_ms, times.backward_weight_ms]
    nanoseconds = [round(part * 1e6) for part in parts]
    whole = times.backward_ms
    nanoseconds.append(nanoseconds[1] + nanoseconds[2] if whole is None else round(whole * 1e6))
    return [*nanoseconds, round(times.step_ms * 1e6)] if with_step else nanoseconds


def _times_row(columns: Sequence[int], work: int, whole: int) -> list[str]:
    texts = [decimal_text(time, 10**6, 3) for time in columns]
    return [*texts[:4], percent_text(work, whole), *texts[4:]]


def _sizes_table(
    profile: Profile, names: Sequence[str], counts: Mapping[str, int], glyphs: Glyphs, width: int
) -> list[Text]:
    def of(kind: Kind, size: str) -> int:
        value: int = getattr(kind, size)
        return value

    heads = ["kind", "layers", "parameters", *SIZES]
    rows: list[list[str]] = []
    for name in names:
        kind = profile.kinds[name]
        whole = "" if kind.splittable else " (not split)"
        sizes = [size_text(of(kind, size)) for size in SIZES.values()]
        rows.append([glyphs.name(name) + whole, str(counts[name]), count_text(kind.parameters), *sizes])
    parameters = sum(profile.kinds[name].parameters * counts[name] for name in names)
    sums = {size: sum(of(profile.kinds[name], size) * counts[name] for name in names) for size in SIZES.values()}
    # Workspaces are used one at a time, outputs only at cuts: their sums would mean nothing.
    totals = ["" if size in ("output_bytes", "workspace_bytes") else size_text(sums[size]) for size in SIZES.values()]
    rows.append(["all", str(sum(counts[name] for name in names)), count_text(parameters), *totals])
    columns = {head: list(cells) for head, *cells in zip(heads, *rows, strict=True)}
    kept = without(columns, ["layers"], width)  # the tables of times have them too
    table = grid(list(kept), list(zip(*kept.values(), strict=True)), "l" + "r" * (len(kept) - 1), width)
    return [*_titled("parameters and memory, a layer (activations and after: a layer and micro-batch)", width), *table]


def work_table(profile: Profile, work: Mapping[str, KindWork], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of what a layer of each kind does: active parameters, FLOPs, their share, what bounds them.

    What bounds F, I and W is named once where it is the same.
    """
    counts = Counter(profile.layer_kinds)
    names = [name for name in profile.kinds if name in counts]
    layer = {name: [work[name].flops[step] for step in PASSES] for name in names}
    totals = [sum(layer[name][at] * counts[name] for name in names) for at in range(len(PASSES))]
    active = sum(work[name].active_parameters * counts[name] for name in names)
    rows = []
    for name in names:
        share = percent_text(sum(layer[name]) * counts[name], sum(totals))
        numbers = [count_text(work[name].active_parameters), *map(count_text, layer[name]), share]
        bound = [work[name].bound[step] for step in PASSES if step in work[name].bound]
        said = bound[:1] if len(set(bound)) < 2 else bound
        rows.append([glyphs.name(name), str(counts[name]), *numbers, glyphs.name(", ".join(said))])
    rows.append(["all", str(sum(counts.values())), count_text(active), *map(count_text, totals), "100.0", ""])
    heads = ["kind", "layers", "active", "F FLOPs", "I FLOPs", "W FLOPs", "FLOPs %", "bound by (F, I, W)"]
    title = "work on one device, a layer and micro-batch"
    return joined([*_titled(title, width), *grid(heads, rows, "l" + "r" * 6 + "l", width)])


def _titled(title: str, width: int) -> list[Text]:
    lines = wrapped("", title, width)
    for line in lines:
        line.stylize("bold")
    return lines
