"""How step times vary where a profile's times are off: kinds drawn anew, orders replayed as they stand.

All draws are replayed at once: an order fixes what waits for what, so one pass over the actions does for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from octopipe_cli.cluster import Cluster
from octopipe_cli.pipeline import Assignment, Pipeline
from octopipe_cli.plan import ActionKind, Orders
from octopipe_cli.profile import Profile, Times
from octopipe_cli.simulate import Timeline, sequence_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Columns of the factors.
_F, _I, _W = range(3)
#: Draws by which a search that is to bear noise compares its candidates.
SEARCH_DRAWS: Final = 100


class Noise:
    """Draws of a profile's times.

    Each kind's F, I and W take a factor of their own, the same for all its layers and on all hardware: a profile's
    errors are of its kinds. Factors are log-normal with median 1, `percent` / 100 being the standard deviation of
    their logarithm. B is drawn as I + W; measured in one piece it keeps its ratio to them. Transfers, overheads and
    `step_ms` stay.

    Parameters
    ----------
    percent
        The error, in per cent.
    draws, seed
        How many draws, and what fixes them.
    """

    def __init__(self, profile: Profile, cluster: Cluster, percent: float, draws: int, seed: int) -> None:
        self.profile, self.cluster, self.draws = profile, cluster, draws
        names = sorted(profile.kinds)
        normal = np.random.default_rng(seed).standard_normal((len(names), 3, draws))
        factors = np.exp(percent / 100 * normal)
        self._factors: Mapping[str, Floats] = dict(zip(names, factors, strict=True))
        self._known: dict[tuple[str, str, float], dict[ActionKind, Ints]] = {}

    def step_times_ns(self, assignment: Assignment, timeline: Timeline) -> Ints:
        """Return the step time of each draw, shape (draws,): the timeline's orders with the drawn times."""
        pipeline = timeline.pipeline
        times = [self._stage(pipeline, assignment, stage) for stage in range(assignment.num_stages)]
        return self._replayed(pipeline, timeline.orders, times)

    def _stage(self, pipeline: Pipeline, assignment: Assignment, stage: int) -> dict[ActionKind, Ints]:
        """Return the drawn times of a stage's actions, as `build_pipeline` adds them up."""
        member = self.cluster.members[assignment.ranks[stage]]
        counts = Counter(self.profile.layer_kinds[layer] for layer in assignment.layers(stage))
        sums: dict[ActionKind, Ints] = {k: np.zeros(self.draws, np.int64) for k in ("F", "I", "W", "B")}
        for name, count in sorted(counts.items()):
            for kind, drawn in self._layer(name, member.hardware, member.speed).items():
                sums[kind] += count * drawn
        if assignment.recompute[stage]:
            sums["I"] += sums["F"]
            sums["B"] += sums["F"]
        overhead = self.cluster.action_overhead_ns
        return {kind: drawn + overhead for kind, drawn in sums.items()}

    def _layer(self, name: str, hardware: str, speed: float) -> dict[ActionKind, Ints]:
        key = (name, hardware, speed)
        if key not in self._known:
            self._known[key] = _drawn(self.profile.kinds[name].times[hardware], speed, self._factors[name])
        return self._known[key]

    def _replayed(self, pipeline: Pipeline, orders: Orders, times: list[dict[ActionKind, Ints]]) -> Ints:
        free: list[Ints] = [np.zeros(self.draws, np.int64) for _ in orders]  # when a rank can begin its next action
        ends = list(free)
        arrived: dict[tuple[int, bool, int], Ints] = {}
        for stage, kind, microbatch in sequence_of(orders):
            rank, cost = pipeline.rank_of[stage], pipeline.stages[stage]
            forward, to = kind == "F", stage + (1 if kind == "F" else -1)
            begin = free[rank]
            there = None if kind == "W" else arrived.pop((stage, forward, microbatch), None)
            if there is not None:
                begin = np.maximum(begin, there)
            end = begin + times[stage][kind]
            lag = 0
            if kind != "W" and 0 <= to < pipeline.num_stages:
                lag = cost.forward_transfer_ns if forward else cost.backward_transfer_ns
                arrived[to, forward, microbatch] = end + lag
            ends[rank] = end
            free[rank] = end + lag if pipeline.p2p == "blocking" else end
        over = [end + step for end, step in zip(ends, pipeline.step_ns, strict=True)]
        return np.asarray(np.max(over, axis=0), np.int64)


def _drawn(times: Times, speed: float, factors: Floats) -> dict[ActionKind, Ints]:
    """Return a layer's drawn times, each the nearest ns."""
    forward, into, weight = (
        ms * 1e6 / speed * factors[at]
        for at, ms in ((_F, times.forward_ms), (_I, times.backward_input_ms), (_W, times.backward_weight_ms))
    )
    nearest = {kind: np.rint(drawn).astype(np.int64) for kind, drawn in (("F", forward), ("I", into), ("W", weight))}
    whole = nearest["I"] + nearest["W"]
    if times.backward_ms is not None:
        apart = (times.backward_input_ms + times.backward_weight_ms) * 1e6 / speed
        ratio = (into + weight) / apart if apart else np.ones_like(into)
        whole = np.rint(times.backward_ms * 1e6 / speed * ratio).astype(np.int64)
    return {"F": nearest["F"], "I": nearest["I"], "W": nearest["W"], "B": whole}


def quantile(times: Ints, percent: int) -> int:
    """Return the least time that so many per cent of the times do not exceed."""
    ordered = np.sort(times)
    return int(ordered[max(0, -(-len(ordered) * percent // 100) - 1)])
