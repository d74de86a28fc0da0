"""Profile x cluster as arrays for the compiled search: cumulative sums, so that a stage's cost is a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.lengths import MicroBatch, growth, request_lengths, scaled_bytes
from octopipe_cli.list_scheduler import (
    AHEAD,
    ARRIVAL,
    BACK,
    BACKWARD,
    EARLY,
    FORWARD,
    HELD,
    INPUT,
    KEPT,
    NEVER,
    NEXT,
    OUTPUT,
    ROOM,
    SLOT,
    UNLIMITED,
    WEIGHT,
    WHOLE,
    WORK_B,
    WORK_F,
    Apart,
    Ints,
    StageCosts,
    reserve,
)
from octopipe_cli.pipeline import LayerTimes, layer_times
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.engine_view import TORCH_ENGINES

ACTIVATION, WEIGHT_ACTIVATION, STATE, BOUNDARY, WHOLE_ONLY = range(5)  # rows of `Tables.sums`
LARGEST, WORKSPACE, OUT, SIZE_CLASS, KIND = range(5)  # rows of `Tables.layers`
NEEDED = 4  # row of the memory after ROOM, SLOT, ARRIVAL, NEXT: what one micro-batch holds in all stages of the rank
STEP = 4  # row of `Tables.times` after FORWARD, BACKWARD, WEIGHT, WHOLE


class TablesApart(NamedTuple):
    """What layers cost by micro-batch; a last axis of micro-batches, in the order of the lists of lengths.

    Attributes
    ----------
    times
        Shape (4, grades, layers + 1, micro-batches): cumulative ns of F, I, W, B, overhead left out.
    sums
        Shape (3, layers + 1, micro-batches), cumulative: activation, weight activation, kept inputs.
    layers
        Shape (4, layers, micro-batches): activation, workspace, output bytes; row of `Tables.lags` of the output.
    """

    times: Ints
    sums: Ints
    layers: Ints


class Tables(NamedTuple):
    """The instance, by layer.

    Attributes
    ----------
    grade
        Shape (ranks,): the column of times a rank uses (one for each hardware and speed).
    times
        Shape (5, grades, layers + 1): cumulative ns of F, I, W, B and of `step_ms`, overhead left out.
    sums
        Shape (5, layers + 1), cumulative: activation, weight activation, state bytes, kept inputs, and the number of
        layers that may not split.
    layers
        Shape (5, layers): activation, workspace, output bytes; which row of `lags` the output's transfer is; the kind.
    lags
        Shape (output sizes, ranks, ranks): transfer times.
    limit
        Shape (ranks,): memory limit in bytes.
    legal
        Shape (layers + 1,): 1 where a cut may stand before that layer.
    together, tied
        Groups of layers that share a rank, that share weights: one a row, filled up with -1.
    whole_again
        Whether a stage that recomputes may not split.
    apart
        What micro-batches that differ have of their own; None where they are alike.
    boundaries_kept
        How many boundary tensors each way the engine keeps of every boundary (see `engines.memory`).
    """

    grade: Ints
    times: Ints
    sums: Ints
    layers: Ints
    lags: Ints
    limit: Ints
    legal: Ints
    together: Ints
    tied: Ints
    whole_again: bool
    boundaries_kept: int
    apart: TablesApart | None


def build_tables(
    profile: Profile, cluster: Cluster, request: Request, sets: Sequence[MicroBatch] | None = None
) -> Tables:
    """Return the tables of an instance.

    Parameters
    ----------
    sets
        Micro-batches to have columns for, in place of the request's.

    Raises
    ------
    InputError
        Where times or sizes are so large that sums over a step leave 64-bit integers.
    """
    members, count = cluster.members, profile.num_layers
    grades: dict[tuple[str, float], int] = {}
    for member in members:
        grades.setdefault((member.hardware, member.speed), len(grades))
    kinds = [profile.kind_of(layer) for layer in range(count)]
    times = np.zeros((5, len(grades), count + 1), np.int64)
    for (hardware, speed), grade in grades.items():
        per_kind = {name: layer_times(kind.times[hardware], speed) for name, kind in profile.kinds.items()}
        for layer, name in enumerate(profile.layer_kinds):
            times[:, grade, layer + 1] = _columns(per_kind[name])
    lengths = request_lengths(profile, request)
    microbatches = sets if sets is not None else () if lengths is None else lengths.microbatches
    _check_range(times, profile, cluster, request, microbatches)
    np.cumsum(times, axis=2, out=times)
    rows: list[list[int]] = [
        [kind.activation_bytes for kind in kinds],
        [kind.weight_activation_bytes for kind in kinds],
        [kind.state_bytes for kind in kinds],
        [0, *(kind.output_bytes for kind in kinds[:-1])],
        [int(not kind.splittable) for kind in kinds],
    ]
    sums = np.zeros((5, count + 1), np.int64)
    np.cumsum(np.array(rows, np.int64), axis=1, out=sums[:, 1:])
    names = list(profile.kinds)
    sizes = sorted({kind.output_bytes for kind in kinds} | _outputs(profile, microbatches))
    lags = [
        [[cluster.transfer_ns(size, a, b) for b in range(len(members))] for a in range(len(members))] for size in sizes
    ]
    layers = [
        rows[ACTIVATION],
        [kind.workspace_bytes for kind in kinds],
        [kind.output_bytes for kind in kinds],
        [sizes.index(kind.output_bytes) for kind in kinds],
        [names.index(name) for name in profile.layer_kinds],
    ]
    legal = np.ones(count + 1, np.int64)
    legal[[layer + 1 for layer in profile.rules.no_cut_after if layer + 1 < count]] = 0
    return Tables(
        grade=np.array([grades[member.hardware, member.speed] for member in members], np.int64),
        times=times,
        sums=sums,
        layers=np.array(layers, np.int64),
        lags=np.array(lags, np.int64),
        limit=np.array(
            [UNLIMITED if m.memory_limit_bytes is None else m.memory_limit_bytes for m in members], np.int64
        ),
        legal=legal,
        together=_groups(_merged(profile.rules.same_rank)),
        tied=_groups(profile.rules.tied),
        whole_again=request.engine in TORCH_ENGINES,
        boundaries_kept=2 * request.num_microbatches if request.engine in TORCH_ENGINES else 0,
        apart=_apart(profile, grades, microbatches, sizes) if microbatches else None,
    )


def _outputs(profile: Profile, microbatches: Sequence[MicroBatch]) -> set[int]:
    """Return the sizes that outputs of layers have for any of the micro-batches."""
    kinds, lengths = profile.kinds.values(), {frozenset(entry.items()) for entry in microbatches}
    return {scaled_bytes(kind.output_bytes, dict(entry).get(kind.modality, 1)) for kind in kinds for entry in lengths}


def _apart(
    profile: Profile,
    grades: Mapping[tuple[str, float], int],
    microbatches: Sequence[MicroBatch],
    sizes: Sequence[int],
) -> TablesApart:
    """Return the tables of micro-batches that differ; `sizes` lists all outputs."""
    count, number = profile.num_layers, len(microbatches)
    by_kind: dict[str, tuple[Ints, Ints]] = {}
    for name, kind in profile.kinds.items():
        at = [entry.get(kind.modality, 1) for entry in microbatches]
        base = [layer_times(kind.times[hardware], speed) for hardware, speed in grades]
        times = [[_columns(times.at(kind.quadratic_share, length))[:4] for length in at] for times in base]
        fields = (kind.activation_bytes, kind.weight_activation_bytes, kind.workspace_bytes, kind.output_bytes)
        scaled = [[scaled_bytes(size, length) for length in at] for size in fields]
        by_kind[name] = np.array(times, np.int64).transpose(2, 0, 1), np.array(scaled, np.int64)
    times_of = np.zeros((4, len(grades), count + 1, number), np.int64)
    sums = np.zeros((3, count + 1, number), np.int64)
    layers = np.zeros((4, count, number), np.int64)
    before = np.zeros(number, np.int64)
    for layer, name in enumerate(profile.layer_kinds):
        times_of[:, :, layer + 1], (activation, weight, workspace, output) = by_kind[name]
        sums[:, layer + 1] = activation, weight, before
        layers[:, layer] = activation, workspace, output, np.searchsorted(sizes, output)
        before = output
    return TablesApart(np.cumsum(times_of, axis=2), np.cumsum(sums, axis=1), layers)


def _columns(times: LayerTimes) -> list[int]:
    return [times.forward, times.input, times.weight, times.backward, times.step]


def _merged(groups: list[list[int]]) -> list[list[int]]:
    """Return groups without overlaps: those that share a layer are one."""
    merged: list[set[int]] = []
    for group in groups:
        touching = [other for other in merged if other & set(group)]
        merged = [other for other in merged if other not in touching] + [set(group).union(*touching)]
    return [sorted(group) for group in merged]


def _groups(groups: list[list[int]]) -> Ints:
    width = max(map(len, groups), default=0)
    return np.array([group + [-1] * (width - len(group)) for group in groups], np.int64).reshape(len(groups), width)


def _check_range(
    times: Ints, profile: Profile, cluster: Cluster, request: Request, microbatches: Sequence[MicroBatch]
) -> None:
    """Refuse what would overflow: twice the whole step on one rank, overheads and transfers too, is below 2^59."""
    layers = times.shape[2]
    size = max(kind.output_bytes for kind in profile.kinds.values())
    work = float(times.max(axis=1).astype(np.float64).sum()) + 4.0 * layers * cluster.action_overhead_ns
    links = [cluster.links.within_node, cluster.links.between_nodes, *cluster.links.pairs]
    work += 2.0 * layers * max(link.transfer_ns(size) for link in links)
    work *= growth(microbatches)
    if 2.0 * request.num_microbatches * work > float(1 << 59):
        raise InputError(
            "the step would take longer than can be reckoned with",
            found=f"up to {request.num_microbatches * work / 3.6e12:,.0f} hours of work and transfers",
            expected="at most 80,000 hours",
            remedy="check that times are in milliseconds, overheads and latencies in microseconds, bandwidths in GB/s",
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _price_apart(tables, apart, costs, target, s, a, b, d, near, overhead, recompute, fused, memory):  # type: ignore[no-untyped-def]
    """Write what stage s costs each micro-batch; `near`: the ranks of the next and the previous stage (-1: none)."""
    if apart is None or target is None:
        return
    ahead, behind = near
    g = tables.grade[d]
    times, sizes, number = apart.times, target.sizes, costs.times.shape[2]
    for row in range(sizes.shape[0]):
        costs.sizes[row, s] = 0
    target.way[0, s] = 0
    target.way[1, s] = 0
    for m in range(number):
        c = target.order[m]
        forward = times[FORWARD, g, b, c] - times[FORWARD, g, a, c]
        again = forward if recompute else 0
        costs.times[FORWARD, s, m] = overhead + forward
        costs.times[BACKWARD, s, m] = overhead + again + times[BACKWARD, g, b, c] - times[BACKWARD, g, a, c]
        costs.times[WEIGHT, s, m] = overhead + times[WEIGHT, g, b, c] - times[WEIGHT, g, a, c]
        costs.times[WHOLE, s, m] = overhead + again + times[WHOLE, g, b, c] - times[WHOLE, g, a, c]
        target.lags[AHEAD, s, m] = tables.lags[apart.layers[SIZE_CLASS, b - 1, c], d, ahead] if ahead >= 0 else 0
        target.lags[BACK, s, m] = tables.lags[apart.layers[SIZE_CLASS, a - 1, c], d, behind] if behind >= 0 else 0
        target.way[0, s] += costs.times[FORWARD, s, m] + target.lags[AHEAD, s, m]
        target.way[1, s] += costs.times[WHOLE if fused else BACKWARD, s, m] + target.lags[BACK, s, m]
        if memory is None:
            continue
        largest = np.int64(0)
        work = np.int64(0)
        for layer in range(a, b):
            largest = max(largest, apart.layers[LARGEST, layer, c])
            work = max(work, apart.layers[WORKSPACE, layer, c])
        kept = 0 if fused else apart.sums[1, b, c] - apart.sums[1, a, c]
        row = 2 if recompute else 0
        sizes[KEPT, s, m] = kept
        sizes[EARLY, s, m] = kept if recompute else 0
        sizes[HELD, s, m] = apart.sums[row, b, c] - apart.sums[row, a, c]
        sizes[WORK_F, s, m] = work
        sizes[WORK_B, s, m] = work + (largest if recompute else 0)
        sizes[INPUT, s, m] = apart.layers[OUT, a - 1, c] if s > 0 else 0
        sizes[OUTPUT, s, m] = apart.layers[OUT, b - 1, c] if b < apart.layers.shape[1] else 0
        for row in range(sizes.shape[0]):
            costs.sizes[row, s] = max(costs.sizes[row, s], sizes[row, s, m])
    target.way[0, s] //= number
    target.way[1, s] //= number


@njit(cache=True, nogil=True, error_model="numpy")
def price(tables, cuts, ranks, recompute, fuse, n, overhead, costs, step, memory):  # type: ignore[no-untyped-def]
    """Write the costs of n stages; return whether they keep the rules and, where limited, can fit one by one.

    Parameters
    ----------
    cuts, ranks, recompute, fuse
        Shapes (>= n + 1,), (>= n,) each: the candidate.
    overhead
        ns an action.
    costs, step, memory
        Written: `StageCosts`, time after the last action by rank, and ROOM, SLOT, ARRIVAL, NEXT, NEEDED by rank
        (None: not limited).
    """
    times, sums, layers, sizes = tables.times, tables.sums, tables.layers, costs.sizes
    num_ranks = step.shape[0]
    for d in range(num_ranks):
        step[d] = 0
    if memory is not None:
        for d in range(num_ranks):
            memory[ROOM, d] = tables.limit[d]
            memory[SLOT, d] = 0
            memory[ARRIVAL, d] = 0
            memory[NEXT, d] = 0
            memory[NEEDED, d] = 0
    for s in range(n):
        a, b, d = cuts[s], cuts[s + 1], ranks[s]
        g = tables.grade[d]
        forward = times[FORWARD, g, b] - times[FORWARD, g, a]
        again = forward if recompute[s] else 0
        costs.rank[s] = d
        costs.times[FORWARD, s, 0] = overhead + forward
        costs.times[BACKWARD, s, 0] = overhead + again + times[BACKWARD, g, b] - times[BACKWARD, g, a]
        costs.times[WEIGHT, s, 0] = overhead + times[WEIGHT, g, b] - times[WEIGHT, g, a]
        costs.times[WHOLE, s, 0] = overhead + again + times[WHOLE, g, b] - times[WHOLE, g, a]
        fused = (
            1 if fuse[s] or sums[WHOLE_ONLY, b] > sums[WHOLE_ONLY, a] or (tables.whole_again and recompute[s]) else 0
        )
        costs.fused[s, 0] = fused
        step[d] += times[STEP, g, b] - times[STEP, g, a]
        costs.lags[AHEAD, s] = tables.lags[layers[SIZE_CLASS, b - 1], d, ranks[s + 1]] if s < n - 1 else 0
        costs.lags[BACK, s] = tables.lags[layers[SIZE_CLASS, a - 1], d, ranks[s - 1]] if s > 0 else 0
        if memory is None:
            ahead, behind = ranks[s + 1] if s < n - 1 else -1, ranks[s - 1] if s > 0 else -1
            near = (ahead, behind)
            _price_apart(
                tables, tables.apart, costs, costs.apart, s, a, b, d, near, overhead, recompute[s], fused, memory
            )
            continue
        largest = np.int64(0)
        work = np.int64(0)
        for layer in range(a, b):
            largest = max(largest, layers[LARGEST, layer])
            work = max(work, layers[WORKSPACE, layer])
        kept = sums[WEIGHT_ACTIVATION, b] - sums[WEIGHT_ACTIVATION, a]
        sizes[KEPT, s] = 0 if fused else kept
        sizes[WORK_F, s] = work
        if recompute[s]:
            sizes[HELD, s] = sums[BOUNDARY, b] - sums[BOUNDARY, a]
            sizes[EARLY, s] = sizes[KEPT, s]
            sizes[WORK_B, s] = work + largest
        else:
            sizes[HELD, s] = sums[ACTIVATION, b] - sums[ACTIVATION, a]
            sizes[EARLY, s] = 0
            sizes[WORK_B, s] = work
        sizes[INPUT, s] = layers[OUT, a - 1] if s > 0 else 0
        sizes[OUTPUT, s] = layers[OUT, b - 1] if s < n - 1 else 0
        ahead, behind = ranks[s + 1] if s < n - 1 else -1, ranks[s - 1] if s > 0 else -1
        near = (ahead, behind)
        _price_apart(tables, tables.apart, costs, costs.apart, s, a, b, d, near, overhead, recompute[s], fused, memory)
        memory[ROOM, d] -= sums[STATE, b] - sums[STATE, a]
        if tables.boundaries_kept > 0:
            sent = sizes[OUTPUT, s] if s < n - 1 and ranks[s + 1] != d else 0
            memory[ROOM, d] -= tables.boundaries_kept * (sizes[INPUT, s] + sent)
        reserve(sizes, fused, s, d, memory)
        memory[NEEDED, d] += sizes[HELD, s]
    if memory is None:
        return True
    if tables.tied.shape[0] > 0:
        _book_copies(tables, cuts, ranks, n, memory)
    for d in range(num_ranks):
        memory[SLOT, d] += memory[ARRIVAL, d]
        if memory[ROOM, d] - memory[SLOT, d] < memory[NEEDED, d]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _stage_of(cuts, n, layer):  # type: ignore[no-untyped-def]
    """Return the stage that holds a layer."""
    return np.searchsorted(cuts[: n + 1], layer, side="right") - 1


@njit(cache=True, nogil=True, error_model="numpy")
def _book_copies(tables, cuts, ranks, n, memory):  # type: ignore[no-untyped-def]
    """Take the copies of tied weights out of the room of the ranks that need one."""
    for g in range(tables.tied.shape[0]):
        owner = tables.tied[g, 0]
        size = tables.sums[STATE, owner + 1] - tables.sums[STATE, owner]
        home = ranks[_stage_of(cuts, n, owner)]
        for d in range(memory.shape[1]):
            if d == home:
                continue
            for i in range(1, tables.tied.shape[1]):
                layer = tables.tied[g, i]
                if layer >= 0 and ranks[_stage_of(cuts, n, layer)] == d:
                    memory[ROOM, d] -= size
                    break


@njit(cache=True, nogil=True, error_model="numpy")
def shares_ranks(tables, cuts, ranks, n):  # type: ignore[no-untyped-def]
    """Return whether layers that must share a rank do."""
    for g in range(tables.together.shape[0]):
        home = ranks[_stage_of(cuts, n, tables.together[g, 0])]
        for i in range(1, tables.together.shape[1]):
            layer = tables.together[g, i]
            if layer >= 0 and ranks[_stage_of(cuts, n, layer)] != home:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def quick_bound(costs, n, num_microbatches, step, by_span, scratch):  # type: ignore[no-untyped-def]
    """Return a lower bound on the step time (or span) of any schedule of n stages; NEVER where a rank has none.

    See `_quick_bound`.
    """
    return _quick_bound(costs.apart, costs, n, num_microbatches, step, by_span, scratch)


@njit(cache=True, nogil=True, error_model="numpy")
def _quick_bound(apart, costs, n, num_microbatches, step, by_span, scratch):  # type: ignore[no-untyped-def]
    """Return the bound, by one reckoning where micro-batches are alike and by another where not.

    For each rank: it starts when the first micro-batch arrives, works off its load, and after its last F or backward
    the way back to stage 0 and its W remain (design, section 5.1). `scratch`: shape (4, ranks); its first row holds
    each rank's own bound afterwards.
    """
    if apart is not None:
        return _bound_apart(apart, costs, n, num_microbatches, step, by_span, scratch)
    num_ranks = step.shape[0]
    times, fused, lags = costs.times, costs.fused, costs.lags
    for d in range(num_ranks):
        scratch[0, d] = -1
        scratch[1, d] = 0
        scratch[2, d] = 0
        scratch[3, d] = 0
    ahead = np.int64(0)
    behind = np.int64(0)
    for s in range(n):
        d = costs.rank[s]
        if scratch[0, d] < 0:
            scratch[0, d] = ahead
            scratch[1, d] = behind
        back = times[WHOLE, s, 0] if fused[s, 0] else times[BACKWARD, s, 0]
        scratch[2, d] += times[FORWARD, s, 0] + back
        scratch[3, d] += 0 if fused[s, 0] else times[WEIGHT, s, 0]
        ahead += times[FORWARD, s, 0] + lags[AHEAD, s]
        behind += back + (lags[BACK, s + 1] if s + 1 < n else 0)
    tail = step[costs.rank[0]] + (0 if fused[0, 0] else times[WEIGHT, 0, 0])
    least = np.int64(0)
    for d in range(num_ranks):
        if scratch[0, d] < 0:
            return NEVER
        load = num_microbatches * (scratch[2, d] + scratch[3, d]) + step[d]
        if not by_span:
            load = scratch[0, d] + max(load, num_microbatches * scratch[2, d] + scratch[1, d] + tail)
        scratch[0, d] = load
        least = max(least, load)
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def _bound_apart(apart, costs, n, num_microbatches, step, by_span, scratch):  # type: ignore[no-untyped-def]
    """Return the bound where micro-batches differ: loads summed over them, ways the shortest of any, one's own path.

    A row more of `scratch` is written than before, its first is each rank's own bound again.
    """
    num_ranks = step.shape[0]
    times, fused, rank_of = costs.times, costs.fused, costs.rank
    opens = np.full(num_ranks, -1, np.int64)
    for d in range(num_ranks):
        scratch[0, d] = NEVER
        scratch[1, d] = NEVER
        scratch[2, d] = 0
        scratch[3, d] = 0
    for s in range(n):
        if opens[rank_of[s]] < 0:
            opens[rank_of[s]] = s
    longest = np.int64(0)
    for m in range(num_microbatches):
        ahead = np.int64(0)
        behind = step[rank_of[0]] + (0 if fused[0, 0] else times[WEIGHT, 0, m])
        for s in range(n):
            d = rank_of[s]
            if opens[d] == s:
                scratch[0, d] = min(scratch[0, d], ahead)
                scratch[1, d] = min(scratch[1, d], behind)
            back = times[WHOLE, s, m] if fused[s, 0] else times[BACKWARD, s, m]
            scratch[2, d] += times[FORWARD, s, m] + back
            scratch[3, d] += 0 if fused[s, 0] else times[WEIGHT, s, m]
            ahead += times[FORWARD, s, m] + apart.lags[AHEAD, s, m]
            behind += back + (apart.lags[BACK, s + 1, m] if s + 1 < n else 0)
        longest = max(longest, ahead + behind)
    least = np.int64(0) if by_span else longest
    for d in range(num_ranks):
        if opens[d] < 0:
            return NEVER
        load = scratch[2, d] + scratch[3, d] + step[d]
        if not by_span:
            load = scratch[0, d] + max(load, scratch[2, d] + scratch[1, d])
        scratch[0, d] = load
        least = max(least, load)
    return least


def new_costs(num_stages: int, num_apart: int = 0) -> StageCosts:
    """Return empty costs for up to that many stages, and micro-batches where these differ."""
    shape: Any = (num_stages,)
    apart = None
    if num_apart:
        apart = Apart(
            np.zeros((2, num_stages, num_apart), np.int64),
            np.zeros((7, num_stages, num_apart), np.int64),
            np.zeros((2, num_stages), np.int64),
            np.arange(num_apart),
        )
    return StageCosts(
        np.zeros(shape, np.int64),
        np.zeros((4, num_stages, num_apart or 1), np.int64),
        np.zeros((num_stages, 1), np.int64),
        np.zeros((2, num_stages), np.int64),
        np.zeros((7, num_stages), np.int64),
        apart,
    )
