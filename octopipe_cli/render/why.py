"""`show --why`: why the step time is what it is, in sentences and tables."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from octopipe_cli.explain import Change, Explanation, Wait
from octopipe_cli.explain.path import Run, shortened
from octopipe_cli.plan import Plan
from octopipe_cli.render.console import LEAST_WIDTH
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, wrapped
from octopipe_cli.render.why_sentences import paragraphs
from octopipe_cli.words import (
    gibibyte_text,
    kinds_text,
    percent_text,
    stage_kinds,
    time_column,
    time_text,
)

LABEL: Final = 12
#: How many pieces of the critical path stand alone, the longest.
LONGEST_RUNS: Final = 5
#: How many ranks a micro-batch visits are named.
MOST_VISITS: Final = 8
#: So many changes are told whose gain is one part in so many of the step time, and all those of a larger part.
ALWAYS_TOLD: Final = 3
LEAST_PART: Final = 10_000
SMALL_PART: Final = 2_000


def why(plan: Plan, explanation: Explanation, width: int = 80, glyphs: Glyphs = BLOCKS) -> Text:
    """Return why the step time is what it is: paragraphs, then tables of the critical path, the bubbles, what helps."""
    width = max(width, LEAST_WIDTH)

    def safe(text: str) -> str:
        return glyphs.name(glyphs.plain(text))

    lines: list[Text] = []
    for label, text in paragraphs(plan, explanation):
        lines += wrapped(label.ljust(LABEL), safe(text), width)
    if not _told(explanation):
        lines += wrapped(
            " " * LABEL, "Nothing that was tried makes the step 0.01 % shorter with the same orders.", width
        )
    for heads, rows, align in (_path_table(explanation), _wait_table(explanation), _change_table(plan, explanation)):
        if rows:
            lines.append(Text())
            lines += grid([safe(head) for head in heads], [[safe(cell) for cell in row] for row in rows], align, width)
    return joined(lines)


def _path_table(explanation: Explanation) -> tuple[list[str], list[list[str]], str]:
    runs = shortened(explanation.path.runs(), LONGEST_RUNS)
    unit, times = time_column([time for run in runs for time in (run.start_ns, run.end_ns)])
    rows = [[times[2 * at], times[2 * at + 1], _run_text(run)] for at, run in enumerate(runs)]
    return [f"from {unit}", f"to {unit}", "critical path"], rows, "rrw"


def _run_text(run: Run) -> str:
    if run.num_actions == 1:
        return f"{run.first} on rank {run.ranks[0]}"
    ends = f"from {run.first} to {run.last}, {run.num_actions} actions"
    sent = f", {time_text(run.transfer_ns)} of transfers" if run.transfer_ns else ""
    if len(run.ranks) == 1:
        return f"rank {run.ranks[0]} without a pause {ends}{sent}"
    whose = "several micro-batches" if run.microbatch is None else f"micro-batch {run.microbatch}"
    visits = run.ranks if len(run.ranks) <= MOST_VISITS else (*run.ranks[:2], "...", *run.ranks[-2:])
    return f"{whose} over ranks {', '.join(map(str, visits))}, {ends}{sent}"


def _wait_table(explanation: Explanation) -> tuple[list[str], list[list[str]], str]:
    unit, totals = time_column(wait.total_ns for wait in explanation.waits)
    rows = [
        [total, percent_text(wait.total_ns, explanation.step_time_ns), str(wait.rank), _wait_text(wait)]
        for total, wait in zip(totals, explanation.waits, strict=True)
    ]
    return [f"bubble {unit}", "%", "rank", "waits"], rows, "rrrw"


def _wait_text(wait: Wait) -> str:
    if wait.place == "sending":
        return f"for its own transfers, {wait.count} times: p2p is blocking"
    if wait.place == "never acts":
        return "all the time: it has no work"
    if wait.place == "after last":
        end = f" with {wait.source}" if wait.source else ""
        return f"after its last action, until the step ends on rank {wait.source_rank}{end}"
    where = "the same rank" if wait.source_rank == wait.rank else f"rank {wait.source_rank}"
    if wait.place == "before first":
        return f"before its first action {wait.action}, for {wait.source} on {where}"
    if wait.count == 1:
        text = f"with {wait.action} for {wait.source} on {where} from {time_text(wait.from_ns)} on"
    else:
        text = (
            f"{wait.count} times for stage {wait.stage}'s {wait.kind} on {where}, "
            f"longest {time_text(wait.longest_ns)}: {wait.action} for {wait.source} from {time_text(wait.from_ns)} on"
        )
    if wait.ready is None:
        return f"{text}; nothing else was ready"
    ready = f"{text}; {wait.ready.action} ({time_text(wait.ready.duration_ns)}) was ready"
    if wait.ready.lacking_bytes:
        ready += f", but {gibibyte_text(wait.ready.lacking_bytes, 2)} GiB were missing"
    return ready


def _told(explanation: Explanation) -> list[Change]:
    return [
        change
        for at, change in enumerate(explanation.changes)
        if change.gain_ns * (LEAST_PART if at < ALWAYS_TOLD else SMALL_PART) >= explanation.step_time_ns
    ]


def _change_table(plan: Plan, explanation: Explanation) -> tuple[list[str], list[list[str]], str]:
    step_time = explanation.step_time_ns
    told = _told(explanation)
    unit, times = time_column([time for change in told for time in (change.gain_ns, change.at_best_ns)])
    rows = [
        [
            f"-{times[2 * at]}",
            f"-{percent_text(change.gain_ns, step_time, 2)}",
            f"-{times[2 * at + 1]}",
            _change_text(plan, explanation, change),
        ]
        for at, change in enumerate(told)
    ]
    return [f"step {unit}", "%", "at best", "what would help (at best: with other orders)"], rows, "rrrw"


def _change_text(plan: Plan, explanation: Explanation, change: Change) -> str:
    if change.what == "stage":
        stage = plan.stages[change.stages[0]]
        kinds = kinds_text(stage_kinds(stage.kinds)) or "empty"
        return f"stage {change.stages[0]} on rank {stage.rank} ({kinds}) takes 10 % less"
    if change.what == "transfers":
        return "transfers take no time"
    if change.what == "optimizer step":
        return "the optimizer step takes 10 % less on every rank"
    if change.what == "recomputation":
        ranks = {plan.stages[stage].rank: None for stage in change.stages}
        where = f"rank {next(iter(ranks))}" if len(ranks) == 1 else "all ranks"
        return f"more memory on {where}, to recompute nothing there"
    number, step_time = plan.request.num_microbatches, explanation.step_time_ns
    more, each = time_text(change.step_time_ns - step_time), time_text(change.step_time_ns // (number + 1))
    now = time_text(step_time // number)
    return f"{number + 1} micro-batches, if one more takes {more}, its work: {each} each, now {now}"
