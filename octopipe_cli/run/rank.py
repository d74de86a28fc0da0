"""One rank of a run: its stages in PyTorch's pipelining runtime, its steps, its part of the check."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from octopipe_cli.run.compare import compared
from octopipe_cli.run.job import Job, Outcome, Span
from octopipe_cli.run.recorder import Recorder

#: Where a rank is: the step it is in and how many actions of it have ended, told as they change.
Progress = Callable[[int, int], None]


def run_rank(job: Job, rank: int, meeting: str, progress: Progress) -> Outcome | None:
    """Return what a run gave, on rank 0; None elsewhere.

    Parameters
    ----------
    meeting
        Where the ranks find one another: torch's `init_method`.
    progress
        Called when a step begins and after each action.
    """
    import torch
    from torch import distributed

    device = torch.device(job.device)
    if device.type == "cuda":
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=meeting,
        rank=rank,
        world_size=len(job.plan.ranks),
        timeout=timedelta(days=1),  # a hang is the watchdog's matter: it knows which ranks get on
    )
    try:
        return _run(job, rank, device, progress)
    finally:
        distributed.destroy_process_group()


def _run(job: Job, rank: int, device: Any, progress: Progress) -> Outcome | None:
    from torch import distributed

    now = [0, 0]

    def done() -> None:
        now[1] += 1
        progress(*now)

    recorder = Recorder(job.workload, done, device.type == "cuda")
    job.workload.start(str(device), recorder.restart)
    modules = {number: job.workload.module(number) for number in job.timeline.pipeline.stages_of[rank]}
    schedule = _schedule(job, modules, device, recorder)
    last = job.timeline.pipeline.num_stages - 1
    mine: list[list[Span]] = []
    losses: list[list[float]] = []
    for step in range(job.warmup + job.steps):
        for module in modules.values():
            module.zero_grad()
        now[:] = [step, 0]
        progress(*now)
        distributed.barrier()
        recorder.begin()
        found: list[Any] = []
        _step(schedule, job, first=0 in modules, last=last in modules, losses=found)
        mine.append(recorder.spans())
        losses.append([float(loss) for loss in found])
    gathered = _gathered((mine, losses), rank)
    gradients = _gathered(_gradients(job, modules), rank) if job.check else None
    if gathered is None:
        return None
    outcome = _outcome(gathered, job.warmup)
    if gradients is not None:
        together = {name: gradient for part in gradients for name, gradient in part.items()}
        outcome.check = compared(outcome.losses[-1], together, *job.workload.reference())
    return outcome


def _schedule(job: Job, modules: dict[int, Any], device: Any, recorder: Recorder) -> Any:
    """Return the runtime with this rank's stages and the plan's schedule."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    pipeline = job.timeline.pipeline
    stages = []
    for number, module in modules.items():  # ascending: the runtime wants them so
        given, made = job.workload.examples(number)
        stage = PipelineStage(module, number, pipeline.num_stages, device, input_args=(given,), output_args=(made,))
        recorder.watch(stage)
        stages.append(stage)
    schedule = _PipelineScheduleRuntime(stages, pipeline.num_microbatches, loss_fn=job.workload.loss, scale_grads=True)
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(job.schedule)
        file.flush()
        schedule._load_csv(file.name, format="compute_comms")
    return schedule


def _step(schedule: Any, job: Job, *, first: bool, last: bool, losses: list[Any]) -> None:
    """Run one step: the rank of the first stage has the input, that of the last one the losses."""
    import torch

    arguments = (job.workload.batch(),) if first else ()
    named: dict[str, Any] = {}
    if last:
        target = torch.zeros(job.timeline.pipeline.num_microbatches)  # the workload has its own
        named = {"target": target, "losses": losses}
    schedule.step(*arguments, return_outputs=False, **named)


def _gradients(job: Job, modules: dict[int, Any]) -> dict[str, Any]:
    """Return the gradients of a rank's stages, on the CPU."""
    found = {}
    for number, module in modules.items():
        found.update({name: value.cpu() for name, value in job.workload.gradients(number, module).items()})
    return found


def _gathered(part: Any, rank: int) -> list[Any] | None:
    """Return every rank's part on rank 0; None elsewhere."""
    from torch import distributed

    parts: list[Any] | None = [None] * distributed.get_world_size() if rank == 0 else None
    distributed.gather_object(part, parts)
    return parts


def _outcome(gathered: list[Any], warmup: int) -> Outcome:
    """Return what all ranks recorded, step by step, without the steps that do not count."""
    spans = [part[0] for part in gathered]
    losses = [part[1] for part in gathered]
    steps = [list(step) for step in zip(*spans, strict=True)]
    per_step: list[list[float]] = [next((found for found in step if found), []) for step in zip(*losses, strict=True)]
    return Outcome(steps[warmup:], per_step[warmup:])
