"""What `octopipe run` is made of: a job, its run, the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from octopipe_cli.cli.output import Format, emit, emit_json, note, save, warn
from octopipe_cli.errors import EXIT_NO
from octopipe_cli.export.torch_csv import runnable, with_communication
from octopipe_cli.export.torch_orders import changes
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay
from octopipe_cli.run.environment import check_torch, under_torchrun
from octopipe_cli.run.job import Check, Job, Outcome
from octopipe_cli.run.launch import execute
from octopipe_cli.run.measured import Comparison, compare
from octopipe_cli.words import percent_text, time_text


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command."""

    steps: int
    scale: float
    timeout_s: float
    device: str
    check: bool
    sequence_length: int
    micro_batch_size: int
    dtype: str


def timed_job(plan: Loaded[Plan], asked: Asked) -> Job:
    """Return the job of running a plan's times."""
    from octopipe_cli.run.timed import TimedWorkload, stretched

    longer = Loaded(stretched(plan.value, asked.scale), plan.file, plan.digest)
    runs, timeline = _runnable(longer)
    device = check_torch(asked.device, _local_ranks(runs))
    return Job(
        runs,
        timeline,
        with_communication(timeline),
        TimedWorkload(timeline),
        steps=asked.steps,
        warmup=1,
        device=device,
        timeout_s=asked.timeout_s,
    )


def model_job(plan: Loaded[Plan], asked: Asked, config: str) -> Job:
    """Return the job of running a config's layers."""
    from octopipe_cli.profiling.configs.families import load_config
    from octopipe_cli.profiling.measure import check_device
    from octopipe_cli.run.model import TOLERANCES, ModelWorkload, check_layers

    runs, timeline = _runnable(plan)
    found = load_config(config)
    architecture = check_layers(runs, found)
    device = check_torch(asked.device, _local_ranks(runs))
    check_device("cpu")  # transformers is there
    workload = ModelWorkload(
        runs,
        found.document,
        architecture,
        dtype=asked.dtype,
        batch=asked.micro_batch_size,
        length=asked.sequence_length,
    )
    if workload.unties:
        warn("embedding and head share weights and are in different stages: they are run with weights of their own")
    return Job(
        runs,
        timeline,
        with_communication(timeline),
        workload,
        steps=asked.steps,
        device=device,
        timeout_s=asked.timeout_s,
        check=asked.check,
        tolerance=TOLERANCES[asked.dtype],
    )


def _runnable(plan: Loaded[Plan]) -> tuple[Plan, Any]:
    runs, timeline = runnable(plan, "torch")
    for line in changes(plan.value, replay(plan.value, plan.file), timeline):
        note(f"octopipe: {line}")
    return runs, timeline


def _local_ranks(plan: Plan) -> int:
    """Return how many ranks this machine has to carry; under torchrun one process is one rank."""
    return 1 if under_torchrun() else len(plan.ranks)


def run_and_report(job: Job, asked: Asked, format: Format, *, chart: bool, trace: str | None, timed: bool) -> None:
    """Run a job and print what came of it; exits 1 where a check failed."""
    import typer

    outcome = execute(job)
    if outcome is None:
        return  # the first rank reports
    found = compare(job.timeline, outcome)
    if trace is not None:
        from octopipe_cli.export.chrome_trace import trace_of

        save(trace, trace_of(job.plan, found.measured))
        note(f"octopipe: wrote {trace}")
    if format is Format.json:
        emit_json(_document(job, outcome, found, timed))
    else:
        emit(_text(job, asked, outcome, found, chart=chart, timed=timed))
    if outcome.check is not None and not outcome.check.holds(job.tolerance):
        raise typer.Exit(EXIT_NO)


def _text(job: Job, asked: Asked, outcome: Outcome, found: Comparison, *, chart: bool, timed: bool) -> str:
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.gantt import gantt
    from octopipe_cli.render.measured import action_table

    console = make_console()
    texts: list[Any] = []
    if chart and found.measured.step_time_ns:
        texts.append(gantt(job.plan, found.measured, console.width, glyphs_of(console)))
    steps = len(found.step_times_ns)
    of = f"the fastest of {steps} steps, median {time_text(found.median_ns)}" if steps > 1 else "one step"
    lines = [f"measured   {time_text(found.measured.step_time_ns)} a step ({of}; {job.device})"]
    if timed:
        lines.insert(0, f"predicted  {time_text(found.predicted.step_time_ns)} a step{_stretched(asked.scale)}")
        more = found.measured.step_time_ns - found.predicted.step_time_ns
        percent = percent_text(abs(more), found.predicted.step_time_ns) if found.predicted.step_time_ns else "0"
        lines.append(f"error      {percent} % {'more' if more >= 0 else 'less'} than predicted")
        lines.append(f"gap        {time_text(max(found.gap_ns, 0))} between actions that wait for nothing, mean")
    else:
        losses = [sum(step) / len(step) for step in outcome.losses if step]
        lines.append("loss       " + ", ".join(f"{loss:.6f}" for loss in losses[:8]))
    if outcome.check is not None:
        lines += _check_lines(outcome.check, job.tolerance)
    texts.append("\n".join(lines) + "\n")
    if timed:
        rows = [(k.kind, k.count, k.planned_ns, k.mean_ns, k.largest_ns) for k in found.kinds]
        texts.append(action_table(rows, console.width))
    return rendered(console, *texts)


def _stretched(scale: float) -> str:
    return "" if scale == 1 else f" (all times x {scale:g})"


def _check_lines(check: Check, tolerance: float) -> list[str]:
    verdict = "equal" if check.holds(tolerance) else "NOT EQUAL"
    lines = [
        f"check      {verdict}: loss {check.loss:.9g}, in one process {check.expected_loss:.9g}",
        f"           {check.parameters} gradients, largest difference {check.worst:.2g} of the largest entry"
        f" ({check.where or 'none'}), allowed {tolerance:g}",
    ]
    if check.missing:
        lines.append(f"           in one run only: {', '.join(check.missing[:8])}")
    return lines


def _document(job: Job, outcome: Outcome, found: Comparison, timed: bool) -> dict[str, Any]:
    """Return the report for programs; times in ns."""
    actions = [
        {
            "rank": rank,
            "action": str(action),
            "start_ns": found.measured.start_ns[rank][at],
            "end_ns": found.measured.end_ns[rank][at],
            "predicted_start_ns": found.predicted.start_ns[rank][at],
            "predicted_end_ns": found.predicted.end_ns[rank][at],
        }
        for rank, ran in enumerate(found.predicted.orders)
        for at, action in enumerate(ran)
    ]
    document: dict[str, Any] = {
        "device": job.device,
        "timed": timed,
        "predicted_step_time_ns": found.predicted.step_time_ns,
        "step_time_ns": found.measured.step_time_ns,
        "step_times_ns": list(found.step_times_ns),
        "gap_ns": found.gap_ns,
        "kinds": [
            {
                "kind": each.kind,
                "actions": each.count,
                "planned_ns": each.planned_ns,
                "mean_difference_ns": each.mean_ns,
                "largest_difference_ns": each.largest_ns,
            }
            for each in found.kinds
        ],
        "actions": actions,
    }
    if not timed:
        document["losses"] = [[_number(loss) for loss in step] for step in outcome.losses]
    if outcome.check is not None:
        check = outcome.check
        document["check"] = {
            "holds": check.holds(job.tolerance),
            "loss": _number(check.loss),
            "expected_loss": _number(check.expected_loss),
            "gradients": check.parameters,
            "largest_relative_difference": _number(check.worst),
            "where": check.where,
            "missing": list(check.missing),
            "tolerance": job.tolerance,
        }
    return document


def _number(value: float) -> float | None:
    """Return a number as JSON has it; None where it is none."""
    return value if math.isfinite(value) else None
