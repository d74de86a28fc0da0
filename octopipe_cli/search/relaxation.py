"""A certified lower bound on the step time of any plan: closed forms, then CP-SAT on the relaxation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ortools.sat.python import cp_model

from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.engines import engine_p2p
from octopipe_cli.plan import BoundArgument, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import AtomTable, build_atoms
from octopipe_cli.search.closed_bounds import common_divisor, fewer_ranks_ns, load_ns, memory_ns, path_ns
from octopipe_cli.search.packing import packing_ns
from octopipe_cli.search.relaxed_model import Relaxation, goes_deeper
from octopipe_cli.search.solver import new_solver, solve

#: Coarse passes converge quickly; what they lose is won back by the next. Ticks the bound is counted in, by pass.
RESOLUTIONS: Final = (2**17, 2**20)

#: Engines that may give a rank no layer at all.
MAY_LEAVE_EMPTY: Final = ("megatron", "megatron-hybrid")


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """What no plan can beat.

    Attributes
    ----------
    step_time_ns
        No plan the request allows has a smaller step time.
    span_ns
        No plan has a smaller span; None where the objective is the step time.
    status
        ``optimal`` where the relaxation was solved to its end, else ``bounded``: a tighter bound may exist.
    argument
        What gave the bound: ``load`` (all work of a rank, after its first layer can start), ``round trip`` (its
        forwards and gradients, then the way back to layer 0), ``gradients`` (its backward work, after one micro-batch
        has passed all layers), ``path`` (one micro-batch alone), ``memory at the turns`` (before the first gradient
        and after the last forward a rank can only do what fits into its memory), ``memory over time`` (all that is
        held for as long as it must be), ``packing`` (no way to hand out the layers leaves every rank less work),
        ``exact`` (all plans of a small instance were looked at), or ``relaxation`` where no single one can be named.
    """

    step_time_ns: int
    span_ns: int | None
    status: str
    argument: BoundArgument


def lower_bound(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    *,
    deterministic_time: float,
    time_limit_s: float | None = None,
    stop: Callable[[], bool] | None = None,
) -> CertifiedBound:
    """Return a lower bound on the step time (and the span) of every plan the request allows.

    Parameters
    ----------
    deterministic_time
        CP-SAT's budget, independent of the machine.
    time_limit_s
        Wall-clock net; a bound it cut short still holds, but another run may give another.
    stop
        Asked ten times a second; the bound so far is returned once it says true.
    """
    end = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    table = build_atoms(profile, cluster, request)
    # where several stages a rank are allowed too, Megatron may overlap its transfers
    p2p = engine_p2p(request.engine, request.max_stages_per_rank or 2, cluster.p2p)
    spans = request.objective == "span"
    share = deterministic_time / 2 if spans else deterministic_time
    step, status, argument = _bound(table, request, p2p, False, share, end, stop)
    found = CertifiedBound(step, None, status, argument)
    if spans:
        span, status, argument = _bound(table, request, p2p, True, share, end, stop)
        found = CertifiedBound(max(step, span), span, status, argument)
    most = fewer_ranks_ns(table, request) if request.engine in MAY_LEAVE_EMPTY else None
    return found if most is None else _at_most(found, most)


def _at_most(bound: CertifiedBound, most_ns: int) -> CertifiedBound:
    if max(bound.step_time_ns, bound.span_ns or 0) <= most_ns:
        return bound
    span = None if bound.span_ns is None else min(bound.span_ns, most_ns)
    return CertifiedBound(min(bound.step_time_ns, most_ns), span, "bounded", "load")


def _bound(
    table: AtomTable,
    request: Request,
    p2p: P2P,
    span: bool,
    budget: float,
    end: float,
    stop: Callable[[], bool] | None,
) -> tuple[int, str, BoundArgument]:
    best, argument = _closed(table, request)
    if best == 0 or table.num_atoms < table.num_ranks:  # nothing to do, or no plan at all
        return best, "optimal", argument
    over = stop is not None and stop()
    packed = 0 if over else packing_ns(table, request, best, best * 5 // 4, span=span, budget=budget / 4, stop=stop)
    if packed > best:
        best, argument = packed, "packing"
    finest = common_divisor(table)
    units = [unit for unit in (best // ticks for ticks in RESOLUTIONS) if unit > 2 * finest]
    passes = [*((unit, False) for unit in units), (finest, False)]
    if goes_deeper(table, request, span):  # from what is known by then it is soon told where nothing is gained
        passes += [*((unit, True) for unit in units[:1]), (finest, True)]
    least_share, status = budget / 4, "bounded"
    for unit, deep in passes:
        left = end - time.monotonic()
        if left <= 0 or (stop is not None and stop()):
            break
        share = max(budget, least_share) if deep else budget if unit == finest else budget / 4
        model = Relaxation(table, request, unit, best // unit, p2p=p2p, span=span, deep=deep)
        solved = _solve(model, share, left, stop)
        budget -= min(solved.used, share)
        if solved.ticks * unit > best:
            best, argument = solved.ticks * unit, solved.argument
        if unit == finest:
            status = "optimal" if solved.optimal else "bounded"
    return best, status, argument


def _closed(table: AtomTable, request: Request) -> tuple[int, BoundArgument]:
    """Return the largest of the bounds in closed form, and its argument."""
    known: dict[BoundArgument, int] = {
        "load": load_ns(table, request),
        "path": path_ns(table),
        "memory over time": memory_ns(table, request),
    }
    argument = max(known, key=lambda name: known[name])
    return known[argument], argument


class _Solved(NamedTuple):
    """The certified bound on a model's objective, whether it was solved, the deterministic time, and what binds."""

    ticks: int
    optimal: bool
    used: float
    argument: BoundArgument


def _solve(
    relaxation: Relaxation, deterministic_time: float, time_limit_s: float, stop: Callable[[], bool] | None
) -> _Solved:
    solver = new_solver(deterministic_time)
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_probing_level = 0
    # which proves more under memory limits, and less without
    solver.parameters.use_objective_lb_search = relaxation.limited and relaxation.deep
    if math.isfinite(time_limit_s):
        solver.parameters.max_time_in_seconds = time_limit_s
    model = relaxation.build()
    status = solve(solver, model, stop)
    used = float(solver.response_proto.deterministic_time)
    assert status != cp_model.MODEL_INVALID, model.validate()
    if status == cp_model.INFEASIBLE:
        return _Solved(0, False, used, "relaxation")  # no plan fits: `least_memory` says so; any bound holds then
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    argument: BoundArgument = relaxation.argument(solver) if found else "relaxation"
    return _Solved(math.ceil(solver.best_objective_bound - 1e-6), status == cp_model.OPTIMAL, used, argument)
