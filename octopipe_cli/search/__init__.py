"""The search: partition, placement and schedule together. Heavy to import: commands import it when they search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.length_sets import LengthLists, reported, robust_figures, set_times
from octopipe_cli.lengths import request_lengths
from octopipe_cli.pipeline import build_pipeline
from octopipe_cli.plan import Plan, Request, sealed
from octopipe_cli.profile import Profile
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.engine_view import check_request, engine_request
from octopipe_cli.search.keep import keep_of
from octopipe_cli.search.planner import Planner
from octopipe_cli.search.progress import Progress
from octopipe_cli.search.record import plan_record
from octopipe_cli.search.reorder import LOOK, best_order, permuted, put_back
from octopipe_cli.search.starts import places_freely
from octopipe_cli.search.warm import warm_start
from octopipe_cli.simulate import simulate
from octopipe_cli.verify import check

__all__ = ["Progress", "make_plan"]


def make_plan(
    profile: Loaded[Profile],
    cluster: Loaded[Cluster],
    request: Request,
    *,
    jobs: int = 1,
    time_limit_s: float | None = None,
    observer: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    budget: Budget | None = None,
    warm: Loaded[Plan] | None = None,
    sets: Sequence[LengthLists] | None = None,
) -> Plan:
    """Return the best plan that the request's effort finds, verified.

    The same inputs, request and versions give the same plan with any number of jobs, as long as neither the time
    limit nor `stop` ends the search; a plan that one of them cut short says so in `search`.

    Parameters
    ----------
    jobs
        How many searches run side by side.
    time_limit_s
        A net: when it runs out, the best plan so far is returned.
    observer
        Called a few times a second from another thread.
    stop
        Ends the search as soon as it is set; the best plan so far is returned.
    budget
        What may be spent, in place of what the effort stands for.
    warm
        A plan to begin from, of which `request.keep` is held fixed; the request holds its digest. The plan is no worse
        than its orders on the new inputs.
    sets
        The sets of lengths that a request for a robust plan speaks of, whose digest it holds.

    Raises
    ------
    InputError
        Where the search cannot begin from that plan.
    InfeasibleError
        Where it is proven that no plan fits the ranks' memory.
    LimitError
        Where no plan was found.
    """
    check_request(request, profile)
    stop = stop or threading.Event()
    assert (request.robust is None) == (sets is None)
    assert request.warm_start == (None if warm is None else warm.digest)
    begin = None if warm is None else warm_start(warm, profile.value, cluster.value, engine_request(request))
    keep = keep_of(request, begin, warm)
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    order = _rank_order(profile.value, cluster.value, request, jobs, deadline, stop)
    machine = cluster.value if order is None else permuted(cluster.value, order)
    left = None if deadline is None else max(0.1, deadline - time.monotonic())
    planner = Planner(profile.value, machine, request, jobs, left, observer, stop, budget, begin, keep, sets)
    best, rows, bound = planner.search()
    stopped_by = planner.stopped_by(planner.value(best.timeline)[0])
    assignment, orders = best.assignment, best.timeline.orders
    if order is not None:
        assignment, orders = put_back(assignment, orders, order)
    # Once more with the profile as it is: an engine's view of it has other stages that may not split.
    p2p, number = best.timeline.pipeline.p2p, request.num_microbatches
    lengths, microbatches = request_lengths(profile.value, request), best.timeline.pipeline.microbatch_order
    if lengths is not None and microbatches is not None:
        lengths = lengths.ordered(microbatches)
    pipeline = build_pipeline(profile.value, cluster.value, assignment, number, p2p, lengths)
    timeline = simulate(pipeline, orders)
    robust = None
    if sets is not None and request.lengths_digest is not None:
        times = set_times(profile.value, cluster.value, assignment, orders, reported(sets), p2p)
        robust = robust_figures(times, request.lengths_digest)
    facts = (bound, rows, stopped_by, planner.engines, order, robust)
    plan = sealed(plan_record(profile, cluster, request, assignment, timeline, *facts))
    try:
        check(plan, profile, cluster)
    except InvalidPlanError as error:
        raise AssertionError(f"the search made a plan that does not hold: {error}") from error
    return plan


def _rank_order(
    profile: Profile, cluster: Cluster, request: Request, jobs: int, deadline: float | None, stop: threading.Event
) -> tuple[int, ...] | None:
    """Return the order of ranks along the model to plan for; None where they keep theirs.

    Where stages may sit on any rank there is nothing to choose.
    """
    if not request.reorder_ranks or places_freely(engine_request(request)):
        return None

    def over() -> bool:
        return stop.is_set() or (deadline is not None and time.monotonic() > deadline)

    def look(machine: Cluster) -> int:
        planner = Planner(profile, machine, request, jobs, None, None, stop, LOOK)
        return planner.value(planner.search()[0].timeline)[0]

    order = best_order(cluster, look, over)
    return None if order == tuple(range(cluster.num_ranks)) else order
