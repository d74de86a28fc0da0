"""The best plan of a small instance, searched for exactly: partition, placement, recomputation, orders in one model.

The solver's bound holds for any plan, and what it finds is a plan once the simulator has replayed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.lengths import Lengths
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Action, ActionKind, Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.exact_model import ExactModel
from octopipe_cli.search.solver import new_solver, solve
from octopipe_cli.simulate import Timeline, simulate

#: Instances of more atoms x micro-batches x ranks are not small.
MOST: Final = 96
#: Beyond this products of times and bytes would leave 64 bits.
LONGEST_NS: Final = 2**40


class ExactAnswer(NamedTuple):
    """What is proven about every plan, and the best plan found, if any.

    Attributes
    ----------
    bound_ns
        No plan has a smaller step time.
    optimal
        Whether the search came to its end.
    plan
        A plan whose step time is at most what was asked for; None where none was found.
    """

    bound_ns: int
    optimal: bool
    plan: tuple[Assignment, Timeline] | None


def is_small(profile: Profile, cluster: Cluster, request: Request) -> bool:
    """Return whether an instance is small enough, and the request one the model speaks of: any plan, by step time."""
    size = profile.num_layers * request.num_microbatches * cluster.num_ranks
    free = request.placement == "free" and request.max_stages_per_rank is None
    return size <= MOST and free and request.engine == "any" and request.objective == "step"


def best_plan(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    *,
    least_ns: int,
    most_ns: int,
    lengths: Lengths | None = None,
    alike: bool = False,
    deterministic_time: float,
    time_limit_s: float = math.inf,
    stop: Callable[[], bool] | None = None,
) -> ExactAnswer:
    """Return the best plan with a step time of `most_ns` or less, and a bound on all plans, `least_ns` or more.

    Parameters
    ----------
    least_ns
        A bound known to hold.
    alike
        Whether all ranks, and all links, are alike, so that it is no matter which of them is which.
    deterministic_time
        CP-SAT's budget, independent of the machine; `time_limit_s` and `stop` are nets.
    """
    nothing = ExactAnswer(least_ns, False, None)
    if most_ns < least_ns or most_ns > LONGEST_NS:
        return nothing
    model = ExactModel(profile, cluster, request, least_ns, most_ns, lengths, alike)
    solver = new_solver(deterministic_time)
    if math.isfinite(time_limit_s):
        solver.parameters.max_time_in_seconds = max(0.01, time_limit_s)
    status = solve(solver, model.build(), stop)
    assert status != cp_model.MODEL_INVALID, model.model.validate()
    if status == cp_model.INFEASIBLE:
        return ExactAnswer(most_ns + 1, True, None)
    bound = max(least_ns, math.ceil(solver.best_objective_bound - 1e-6))
    if status == cp_model.UNKNOWN:
        return ExactAnswer(bound, False, None)
    plans = [plan for plan in _plans(model, solver) if plan[1].fits and plan[1].step_time_ns <= most_ns]
    best = min(plans, key=lambda plan: plan[1].step_time_ns, default=None)
    return ExactAnswer(bound, status == cp_model.OPTIMAL, best)


def _plans(model: ExactModel, solver: cp_model.CpSolver) -> Iterator[tuple[Assignment, Timeline]]:
    """Yield the plan of a solution, as the simulator has it: atoms in a row as one stage, and each as its own."""
    where = [next(key[1:] for key, x in model.chosen.items() if key[0] == a and solver.value(x)) for a in model.atoms]
    whole = [tuple(bool(solver.value(model.whole[a, m])) for m in model.numbers) for a in model.atoms]
    rows = [[a] for a in model.atoms]
    merged: list[list[int]] = []
    for a in model.atoms:
        if a and (where[a], whole[a]) == (where[a - 1], whole[a - 1]):
            merged[-1].append(a)
        else:
            merged.append([a])
    for stages in (merged, rows):
        cuts = (*(model.table.starts[stage[0]] for stage in stages), model.table.starts[-1])
        ranks, again = zip(*(where[stage[0]] for stage in stages), strict=True)
        assignment = Assignment(cuts, ranks, again)
        orders = _orders(model, solver, stages, ranks)
        pipeline = build_pipeline(model.profile, model.cluster, assignment, len(model.numbers), lengths=model.lengths)
        try:
            yield assignment, simulate(pipeline, orders)
        except InvalidPlanError:  # the atoms of a stage were not run in a row
            continue


def _orders(model: ExactModel, solver: cp_model.CpSolver, stages: list[list[int]], ranks: tuple[int, ...]) -> Orders:
    runs: dict[Action, tuple[int, int]] = {}
    for s, atoms in enumerate(stages):
        for m in model.numbers:
            whole = solver.value(model.whole[atoms[0], m])
            kinds: dict[ActionKind, str] = {"F": "F", "B": "B"} if whole else {"F": "F", "I": "B", "W": "W"}
            for kind, name in kinds.items():
                last = atoms[-1] if kind == "F" else atoms[0]
                key = (last, name, m)
                runs[Action(s, kind, m)] = (solver.value(model.start[key]), solver.value(model.end[key]))

    def turn(action: Action) -> tuple[Any, ...]:  # of those that take no time the first in the micro-batch's way
        return (*runs[action], "FIBW".index(action.kind), action.stage * (1 if action.kind == "F" else -1), action)

    return tuple(tuple(sorted((a for a in runs if ranks[a.stage] == r), key=turn)) for r in model.ranks)
