"""A plan file replayed: from itself alone, or with its profile and cluster where its micro-batches differ."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.plan import Action, ActionKind, Orders, Plan, parse_orders
from octopipe_cli.profile import Profile, expand
from octopipe_cli.simulate import Timeline, simulate

KINDS: Final[tuple[ActionKind, ...]] = ("F", "I", "W", "B")

#: The last plans and their timelines: what compares two plans and what draws them ask for the same ones.
_RECENT: Final[deque[tuple[Plan, Timeline]]] = deque(maxlen=2)


class NeedsInputsError(InputError):
    """A plan whose micro-batches differ was to be replayed without its profile and cluster."""


def needs_inputs(plan: Plan) -> bool:
    """Return whether a plan's timeline takes its profile and cluster too: micro-batches of other lengths than 1."""
    return any(length != 1 for values in (plan.request.lengths or {}).values() for length in values)


def checked_orders(plan: Plan, file: str) -> Orders:
    """Return the orders of a plan whose stages and orders make a whole; raises what `replay` does where not."""
    _check_stages(plan, file)
    orders = parse_orders(plan.orders, file)
    _check_orders(plan, orders, file)
    return orders


def replay(plan: Plan, file: str, inputs: tuple[Profile, Cluster] | None = None) -> Timeline:
    """Return the timeline of a plan's orders.

    Parameters
    ----------
    inputs
        The profile and the cluster the plan was made from, which are needed where its micro-batches differ. The
        timeline is then known for later calls with the same plan.

    Raises
    ------
    NeedsInputsError
        Where they are needed and were never given.
    InvalidPlanError
        Where stages or orders do not make a whole: no timeline follows from them. Whether the plan suits its profile
        and cluster is not asked here: that is `verify`'s question.
    DeadlockError
        Where actions wait for one another.
    """
    from octopipe_cli.pipeline import pipeline_of_plan, pipeline_with_inputs

    for other, timeline in _RECENT:
        if other is plan:
            return timeline
    orders = checked_orders(plan, file)
    if needs_inputs(plan) and inputs is None:
        raise NeedsInputsError(
            "the plan's micro-batches differ in length: its timeline follows from its profile and cluster",
            file=file,
            path="$.request.lengths",
            remedy="give the profile and the cluster that the plan was made from",
        )
    try:
        made = pipeline_of_plan(plan) if inputs is None else pipeline_with_inputs(plan, *inputs)
        timeline = simulate(made, orders)
    except InvalidPlanError as error:
        error.file, error.path = file, "$.orders"
        raise
    _RECENT.append((plan, timeline))
    return timeline


def _check_stages(plan: Plan, file: str) -> None:
    """Check that stages follow one another, sit on ranks there are and have the times that orders need."""
    at = 0
    for number, stage in enumerate(plan.stages):
        path = f"$.stages[{number}]"
        first, stop = stage.layers
        if first != at or stop < first:
            raise InvalidPlanError(
                "the stages do not follow one another",
                file=file,
                path=f"{path}.layers",
                found=f"[{first}, {stop}]",
                expected=f"a stage that begins with layer {at}",
            )
        at = stop
        if stage.rank >= len(plan.ranks):
            raise InvalidPlanError(
                "a stage on a rank that does not exist",
                file=file,
                path=f"{path}.rank",
                found=str(stage.rank),
                expected=f"0 to {len(plan.ranks) - 1}",
            )
        held = sum(1 for _ in islice(expand(stage.kinds), stop - first + 1))  # groups may write out to far more
        if held != stop - first:
            raise InvalidPlanError(
                "not as many kinds as layers", file=file, path=f"{path}.kinds", expected=f"{stop - first} kinds"
            )
        times = set(stage.action_ns)
        if times not in ({"F", "B"}, {"F", "I", "W", "B"}):
            raise InvalidPlanError(
                "not the times of a stage's actions",
                file=file,
                path=f"{path}.action_ns",
                found=", ".join(sorted(times)) or "none",
                expected="F and B, or F, I, W and B",
            )


def _check_orders(plan: Plan, orders: Orders, file: str) -> None:
    """Check that the orders hold every action once, on its stage's rank."""
    count = plan.request.num_microbatches
    seen: set[Action] = set()
    for rank, actions in enumerate(orders):
        for action in actions:
            problem = _problem(plan, rank, action, seen)
            if problem:
                raise InvalidPlanError(
                    f"{problem[0]}: {action}", file=file, path=f"$.orders[{rank}]", expected=problem[1]
                )
            seen.add(action)
    for number, stage in enumerate(plan.stages):
        for microbatch in range(count):
            kinds = "".join(kind for kind in KINDS if (number, kind, microbatch) in seen)
            if kinds not in ("FB", "FIW"):
                raise InvalidPlanError(
                    f"the orders are incomplete: stage {number}, micro-batch {microbatch}",
                    file=file,
                    path=f"$.orders[{stage.rank}]",
                    found=", ".join(kinds) or "nothing",
                    expected="F and either B or I and W",
                )


def _problem(plan: Plan, rank: int, action: Action, seen: set[Action]) -> tuple[str, str] | None:
    """Return what is wrong with an action on a rank, and what was expected."""
    if action.stage >= len(plan.stages):
        return "no such stage", f"stages 0 to {len(plan.stages) - 1}"
    stage = plan.stages[action.stage]
    if stage.rank != rank:
        return "an action on another rank than its stage", f"it in the order of rank {stage.rank}"
    if action.microbatch >= plan.request.num_microbatches:
        return "no such micro-batch", f"micro-batches 0 to {plan.request.num_microbatches - 1}"
    if action.kind not in stage.action_ns:
        return "the stage may not split its backward", "B"
    if action in seen:
        return "an action that stands twice", "it once"
    return None
