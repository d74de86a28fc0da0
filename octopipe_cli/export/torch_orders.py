"""A plan's orders as PyTorch's pipelining runtime can run them: what is renumbered, what is made whole.

Rules of torch/distributed/pipelining/schedules.py (`_PipelineScheduleRuntime`): losses are looked up in the order of
the last stage's forwards; stage 0's I does nothing and its W is the whole backward; the W of a stage that recomputes
runs its forward again for every group of parameters.
"""

from __future__ import annotations

import msgspec

from octopipe_cli.engines.renumber import by_last_stage
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Action, Orders, Plan, parse_orders, write_orders
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline, simulate
from octopipe_cli.words import percent_text, time_text


def for_torch(plan: Loaded[Plan]) -> tuple[Loaded[Plan], Timeline]:
    """Return a plan with the orders the runtime is given, and their timeline.

    Micro-batches are numbered as the last stage runs their forwards. Stages that recompute, and stage 0, run B: a
    stage that another waits for at its I's place, stage 0 at its I's place or its W's, whichever makes the faster
    step. At the W's place what stands between I and W runs earlier, at the I's place memory is freed earlier; the
    I's place is kept where both are as fast.

    Raises
    ------
    InvalidPlanError
        Where the plan does not make a whole (`octopipe_cli.replay`).
    """
    timeline = replay(plan.value, plan.file)
    orders = by_last_stage(parse_orders(plan.value.orders, plan.file))
    recomputing = {number for number, stage in enumerate(plan.value.stages) if stage.recompute}
    early = with_whole_backward(orders, recomputing | {0})
    runs = [simulate(timeline.pipeline, early)]
    late = with_whole_backward(with_whole_backward(orders, {0}, at="W"), recomputing)
    if late != early:
        runs.append(simulate(timeline.pipeline, late))
    best = min(runs, key=lambda run: (not run.fits, run.step_time_ns))  # the first of equals
    changed = msgspec.structs.replace(plan.value, orders=write_orders(best.orders))
    return Loaded(changed, plan.file, plan.digest), best


def with_whole_backward(orders: Orders, stages: set[int], at: str = "I") -> Orders:
    """Return orders in which these stages run B where they ran I (or W, where `at` says so), and the other no more."""

    def whole(action: Action) -> Action:
        return Action(action.stage, "B", action.microbatch) if action.kind == at else action

    gone = {"I": "W", "W": "I"}[at]
    return tuple(
        tuple(
            whole(action) if action.stage in stages else action
            for action in actions
            if action.stage not in stages or action.kind != gone
        )
        for actions in orders
    )


def changes(plan: Plan, before: Timeline, after: Timeline) -> list[str]:
    """Return, in words, what `for_torch` changed in a plan; nothing where it was fit to run as it stood."""
    split = {stage for actions in before.orders for stage, kind, _ in actions if kind in "IW"}
    still = {stage for actions in after.orders for stage, kind, _ in actions if kind in "IW"}
    found = []
    if whole := sorted(split - still):
        listed = ", ".join(map(str, whole[:8])) + (" and more" if len(whole) > 8 else "")
        stages = f"stage {listed} runs" if len(whole) == 1 else f"stages {listed} run"
        more = after.step_time_ns - before.step_time_ns
        change = f"{time_text(abs(more))} a step ({percent_text(abs(more), before.step_time_ns)} %)"
        cost = f"{change} {'slower' if more > 0 else 'faster'}" if more else "as fast"
        found.append(f"{stages} B in place of I and W, which PyTorch's runtime cannot split there: {cost}")
    if by_last_stage(before.orders) != before.orders:
        found.append("micro-batches are renumbered: the runtime wants the last stage's forwards in ascending order")
    return found
