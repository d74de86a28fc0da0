"""What each engine would reach on the same inputs: a glance at each, beside the search for none in particular."""

from __future__ import annotations

import msgspec

from octopipe_cli.cluster import Cluster
from octopipe_cli.engines import ENGINES
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Engine, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.engine_view import FIXED_ORDERS, engine_profile, engine_request, model_faults
from octopipe_cli.search.fixed_orders import FixedSearch
from octopipe_cli.search.starts import starts
from octopipe_cli.search.tuner import Tuner, Watch

# A hundredth of a standard search, or less.
FIRST_WORK, TUNED_WORK, FIXED_WORK = 1_000_000, 3_000_000, 15_000_000
TUNED, HEAT = 3, 0.002


def reach_ns(
    profile: Profile, cluster: Cluster, request: Request, best: Assignment, watch: Watch, jobs: int
) -> dict[str, int]:
    """Return for each engine that runs this model the value (step time or span, ns) that a glance finds.

    Parameters
    ----------
    best
        The best partition and placement of the search, where PyTorch's runtime begins.
    """
    found: dict[str, int] = {}
    for engine in ENGINES:
        if engine == "any" or watch.over() or _placed_otherwise(request, engine) or model_faults(profile, engine):
            continue
        asked = engine_request(msgspec.structs.replace(request, engine=engine))
        view = engine_profile(profile, engine)
        glance = Watch(watch.stop, watch.deadline)
        value = (
            _settled(view, cluster, asked, glance, jobs)
            if engine in FIXED_ORDERS
            else _tuned(view, cluster, asked, best, glance, jobs)
        )
        if value < NEVER:
            found[engine] = value
    return found


def _placed_otherwise(request: Request, engine: Engine) -> bool:
    """Return whether the request asks for a placement that the engine does not have."""
    return request.placement == "v" and engine in FIXED_ORDERS


def _settled(profile: Profile, cluster: Cluster, request: Request, watch: Watch, jobs: int) -> int:
    found = FixedSearch(profile, cluster, request, watch, jobs).search(FIXED_WORK)
    return found[0].value if found else NEVER


def _tuned(profile: Profile, cluster: Cluster, request: Request, best: Assignment, watch: Watch, jobs: int) -> int:
    tuner = Tuner(profile, cluster, request, watch, jobs)
    assignments = [start.assignment for start in starts(tuner.tables, request, request.recompute == "full")]
    if request.engine == "torch":
        assignments.append(best)
    found = tuner.first_look(assignments, [None] * len(assignments), FIRST_WORK)
    found.sort(key=lambda entry: entry.value)
    if found and found[0].value < NEVER:
        found += tuner.round(found[:TUNED], 1, TUNED_WORK, HEAT, 0)
    return min((entry.value for entry in found), default=NEVER)
