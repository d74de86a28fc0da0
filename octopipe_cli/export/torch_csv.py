"""``torch-csv``: the schedule of PyTorch's pipelining runtime, a line a rank.

`_PipelineScheduleRuntime._load_csv` reads both forms (torch/distributed/pipelining/schedules.py): actions alone, to
which the runtime adds sends and receives, or with them (``format="compute_comms"``), taken as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from octopipe_cli.engines.communication import Program, Transfer, in_planned_order
from octopipe_cli.engines.rendezvous import check_no_deadlock
from octopipe_cli.engines.torch_lowering import swept
from octopipe_cli.export import Options
from octopipe_cli.export.refusal import check_runs
from octopipe_cli.export.torch_orders import changes, for_torch
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Engine, Orders, Plan
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the schedule as CSV; with `options.comms` sends, receives and gradient reduction stand in it."""
    _, timeline = runnable(plan, "torch")
    return with_communication(timeline) if options.comms else compute_only(timeline.orders)


def notes(plan: Loaded[Plan], options: Options) -> list[str]:
    """Return what a reader should know of the schedule beside its text."""
    _, timeline = for_torch(plan)
    found = changes(plan.value, replay(plan.value, plan.file), timeline)
    if options.comms:
        found.append('load it with schedule._load_csv(file, format="compute_comms")')
    return found


def runnable(plan: Loaded[Plan], engine: Engine) -> tuple[Plan, Timeline]:
    """Return the plan as PyTorch's runtime runs it, and its timeline, checked free of deadlock.

    Raises
    ------
    InvalidPlanError
        Where the runtime, or torchtitan, cannot run it.
    DeadlockError
        Where its messages would wait in a circle: in the order the runtime gives them, or in ours.
    """
    changed, timeline = for_torch(plan)
    check_runs(changed, engine)
    check_no_deadlock(swept(timeline.orders))
    check_no_deadlock(in_planned_order(timeline))
    return changed.value, timeline


def compute_only(orders: Orders) -> str:
    """Return orders as CSV, an action a cell."""
    return _lines([list(map(str, actions)) for actions in orders])


def with_communication(timeline: Timeline) -> str:
    """Return the schedule with messages in planned order, and the reduction of each stage's gradients.

    ``REDUCE_GRAD`` divides a stage's gradients by the number of micro-batches (and reduces them under FSDP): it
    stands behind the stage's last backward and what that one sends.
    """
    return _lines([list(_cells(program)) for program in in_planned_order(timeline)])


def _cells(program: Program) -> Iterator[str]:
    """Yield the tokens of a rank."""
    steps = [item for group in program for item in group]
    last = {}
    for at, item in enumerate(steps):
        action = item.message.producer if isinstance(item, Transfer) and item.side == "send" else item
        if not isinstance(action, Transfer) and action.kind in "WBI":
            last[action.stage] = at
    reduced = {at: stage for stage, at in last.items()}
    for at, item in enumerate(steps):
        yield str(item)
        if at in reduced:
            yield f"{reduced[at]}REDUCE_GRAD"


def _lines(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)
