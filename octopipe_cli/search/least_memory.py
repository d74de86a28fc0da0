"""Whether anything fits: proof that no plan does, and assignments that leave the most room."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InfeasibleError
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import Action, Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import build_atoms
from octopipe_cli.search.memory_models import MOST_BOOLEANS, CountModel, LayerModel, MemoryCase, kept, one_stage_a_rank
from octopipe_cli.search.partition_model import roomiest_cuts

#: CP-SAT's deterministic budgets: proof by counts, layer by layer, cuts of one rank sequence.
COUNT_TIME, LAYER_TIME, CUT_TIME = 2.0, 2.0, 0.5
MOST_STAGES_PER_RANK, MOST_SEQUENCES = 4, 12


def serial_orders(pipeline: Pipeline) -> Orders:
    """Return orders that run one micro-batch after another, each backward in one piece: no orders hold less."""
    orders: list[list[Action]] = [[] for _ in range(pipeline.num_ranks)]
    for m in range(pipeline.num_microbatches):
        for stage, rank in enumerate(pipeline.rank_of):
            orders[rank].append(Action(stage, "F", m))
        for stage in reversed(range(pipeline.num_stages)):
            orders[pipeline.rank_of[stage]].append(Action(stage, "B", m))
    return tuple(map(tuple, orders))


def serial_need_bytes(pipeline: Pipeline) -> tuple[int, ...]:
    """Return for each rank the most it holds under `serial_orders`: what any orders of the pipeline need at the least.

    At the backward of each of its stages: what that and its earlier stages keep, workspace, recomputed activations
    and the gradient. (Where an action takes no time at all, a little less may do.)
    """
    needs = []
    for rank, stages in enumerate(pipeline.stages_of):
        state = need = pipeline.state_bytes(rank)
        for costs in zip(*(pipeline.costs(s) for s in stages), strict=True):
            held = 0
            for size in (cost.bytes for cost in costs):
                held += size.held
                need = max(need, state + held + size.workspace + size.transient + size.output)
        needs.append(need)
    return tuple(needs)


def check_feasible(profile: Profile, cluster: Cluster, request: Request) -> None:
    """Return where a plan may exist.

    Raises
    ------
    InfeasibleError
        Where it is proven that none does: too few layers for the ranks, or a rank that needs more than it has.
    """
    case = MemoryCase(profile, cluster, request, build_atoms(profile, cluster, request))
    _check_pieces(case)
    if not cluster.limited:
        return
    contiguous = one_stage_a_rank(case)
    if contiguous is not None and contiguous.least_excess <= 0:
        return
    excess = 0
    one_each = request.max_stages_per_rank == 1 or case.table.num_atoms == cluster.num_ranks
    if one_each and contiguous is not None and contiguous.proven:
        excess = contiguous.least_excess
    if excess <= 0:
        excess = CountModel(case).least_excess(COUNT_TIME)
    if excess <= 0 and _small(case):  # what no placement allows, cyclic and V don't
        excess = LayerModel(case).solve(LAYER_TIME)[0]
    if excess > 0:
        raise _too_little(case, excess)


def _check_pieces(case: MemoryCase) -> None:
    """Raise InfeasibleError where the rules leave fewer pieces than there are ranks."""
    owner = list(range(case.table.num_atoms))
    for group in case.profile.rules.same_rank:
        atoms = case.atoms(group)
        merged = {owner[atom] for atom in atoms}
        owner = [min(merged) if piece in merged else piece for piece in owner]
    pieces, ranks = len(set(owner)), case.cluster.num_ranks
    if pieces < ranks:
        raise InfeasibleError(
            f"no plan: {ranks} ranks, but the model has only {pieces} pieces to place",
            found=f"{case.profile.num_layers} layers, {pieces} pieces that the profile's rules let stand apart",
            expected=f"at least {ranks}, a layer for every rank",
            remedy="use fewer ranks",
        )


def _too_little(case: MemoryCase, excess: int) -> InfeasibleError:
    """Return the error for a proven excess: it names the rank that has least."""
    limits = [case.limit(rank) for rank in range(case.cluster.num_ranks)]
    rank = limits.index(min(limits))
    need = limits[rank] + excess
    alike = "" if len(set(limits)) == 1 else ", or another rank more than it has"
    even = {"none": "", "auto": " even with everything recomputed", "full": " even with everything recomputed"}
    remedy = "more memory a rank, more ranks, tensor parallelism or smaller micro-batches"
    if case.request.recompute == "none":
        remedy = f"allow recomputation (--recompute auto); {remedy}"
    return InfeasibleError(
        f"no plan fits: rank {rank} would need at least {_amounts(need, limits[rank])}"
        f"{even[case.request.recompute]}{alike}",
        found=f"{limits[rank]} bytes on rank {rank}",
        expected=f"at least {need} bytes, for the layers' state and one micro-batch",
        remedy=remedy,
    )


def _amounts(need: int, limit: int) -> str:
    """Return a need and a smaller limit in words, in GiB as long as a few digits tell them apart, else in bytes."""
    for digits in (1, 2, 3):
        larger, smaller = (f"{size / 2**30:.{digits}f}" for size in (need, limit))
        if larger != smaller:
            return f"{larger} GiB of its {smaller} GiB"
    return f"{need} bytes of its {limit} bytes"


def _small(case: MemoryCase) -> bool:
    return case.cluster.num_ranks * case.table.num_atoms <= MOST_BOOLEANS


def roomiest_assignments(profile: Profile, cluster: Cluster, request: Request) -> list[Assignment]:
    """Return assignments that need little memory for one micro-batch after another, up to the first that fits.

    One stage a rank first; where that does not fit, several stages a rank, as far as the request allows.
    """
    found: list[Assignment] = []
    case = MemoryCase(profile, cluster, request, build_atoms(profile, cluster, request))
    for assignment in _candidates(case):
        found.append(assignment)
        pipeline = build_pipeline(profile, cluster, assignment, request.num_microbatches)
        needs = serial_need_bytes(pipeline)
        if all(need <= case.limit(rank) for rank, need in enumerate(needs)):
            break
    return found


def _candidates(case: MemoryCase) -> Iterator[Assignment]:
    request, ranks = case.request, case.cluster.num_ranks
    contiguous = one_stage_a_rank(case)
    if contiguous is not None:
        yield contiguous.assignment
    most = request.max_stages_per_rank or MOST_STAGES_PER_RANK
    if most > 1 and request.placement == "free" and _small(case):
        yield from _by_layer(case)
        return
    largest = min(most * ranks, case.table.num_atoms)
    for num_stages in range(ranks + 1, largest + 1, max(1, (largest - ranks) // MOST_SEQUENCES)):
        for sequence in _sequences(case, num_stages):
            for recompute in case.choices:
                cuts = roomiest_cuts(
                    case.profile, case.cluster, request, sequence, deterministic_time=CUT_TIME, recompute=recompute
                )
                if cuts is not None:
                    yield Assignment(cuts, sequence, (recompute,) * len(sequence))


def _sequences(case: MemoryCase, num_stages: int) -> list[tuple[int, ...]]:
    """Return the rank of each stage for the placement families the request allows."""
    up = tuple(range(case.cluster.num_ranks))
    patterns = {"cyclic": up, "v": up + up[::-1]}
    wanted = list(patterns) if case.request.placement == "free" else [case.request.placement]
    most = case.request.max_stages_per_rank or num_stages
    found = [tuple(patterns[name][s % len(patterns[name])] for s in range(num_stages)) for name in wanted]
    return [sequence for sequence in found if max(map(sequence.count, up)) <= most]


def _by_layer(case: MemoryCase) -> Iterator[Assignment]:
    """Yield the layer model's answer: runs of layers as stages, cut further where that needs less and is allowed."""
    _, answer = LayerModel(case).solve(LAYER_TIME)
    if answer is None:
        return
    atoms = list(zip(*answer, strict=True))
    runs = [list(group) for _, group in groupby(range(len(atoms)), key=lambda a: atoms[a])]
    most = case.request.max_stages_per_rank or len(atoms)
    held = [0] * case.cluster.num_ranks
    finer: list[list[int]] = []
    for run in runs:
        rank, recompute = atoms[run[0]]
        finer += _split(case, run, recompute, held[rank])
        held[rank] += sum(kept(case.size(a), recompute) for a in run)
    for stages in (runs, finer):
        ranks = [atoms[stage[0]][0] for stage in stages]
        if max(ranks.count(rank) for rank in set(ranks)) <= most:
            cuts = [stage[0] for stage in stages] + [len(atoms)]
            yield case.assignment(cuts, ranks, [atoms[stage[0]][1] for stage in stages])


def _split(case: MemoryCase, run: list[int], recompute: bool, held: int) -> list[list[int]]:
    """Return a run of atoms cut into stages so that the most needed at any one's backward is least."""
    best = [(0, 0)]  # for each number of atoms: what the stages up to there need, and where the last began
    for stop in range(1, len(run) + 1):
        held += kept(case.size(run[stop - 1]), recompute)
        workspace = largest = 0
        options = []
        for first in reversed(range(stop)):
            size = case.size(run[first])
            workspace, largest = max(workspace, size.workspace), max(largest, size.largest if recompute else 0)
            need = held + workspace + largest + case.size(run[stop - 1]).output
            options.append((max(need, best[first][0]), first))
        best.append(min(options))
    stages: list[list[int]] = []
    stop = len(run)
    while stop:
        first = best[stop][1]
        stages.append(run[first:stop])
        stop = first
    return stages[::-1]
