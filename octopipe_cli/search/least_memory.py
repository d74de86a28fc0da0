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
from octopipe_cli.search.memory_models import MOST_BOOLEANS, CountModel, LayerModel, MemoryCase, one_stage_a_rank
from octopipe_cli.search.partition_model import roomiest_cuts

#: CP-SAT's deterministic budgets: proof by counts, layer by layer, cuts of one rank sequence.
COUNT_TIME, LAYER_TIME, CUT_TIME = 2.0, 4.0, 0.5
MOST_STAGES_PER_RANK = 4


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
        held = 0
        for s in stages:
            size = pipeline.stages[s].bytes
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
    if all(member.memory_limit_bytes is None for member in cluster.members):
        return
    contiguous = one_stage_a_rank(case)
    if contiguous is not None and contiguous.least_excess <= 0:
        return
    excess = CountModel(case).least_excess(COUNT_TIME)
    if excess <= 0 and _small(case) and request.placement == "free":
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
        f"no plan fits: rank {rank} would need at least {_gib(need)} GiB of its {_gib(limits[rank])} GiB"
        f"{even[case.request.recompute]}{alike}",
        found=f"{limits[rank]} bytes on rank {rank}",
        expected=f"at least {need} bytes, for the layers' state and one micro-batch",
        remedy=remedy,
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}" if size >= 2**27 else f"{size / 2**30:.2g}"


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
    if contiguous is not None and contiguous.assignment is not None:
        yield contiguous.assignment
    most = min(request.max_stages_per_rank or MOST_STAGES_PER_RANK, case.table.num_atoms // ranks)
    if most > 1 and request.placement == "free" and _small(case):
        yield from _by_layer(case)
        return
    up, down = tuple(range(ranks)), tuple(reversed(range(ranks)))
    for v in range(2, most + 1):
        families = {"cyclic": [up * v], "v": [((up + down) * v)[: v * ranks]]}
        sequences = families["cyclic"] + families["v"] if request.placement == "free" else families[request.placement]
        for sequence in sequences:
            for recompute in case.choices:
                cuts = roomiest_cuts(
                    case.profile,
                    case.cluster,
                    request,
                    sequence,
                    deterministic_time=CUT_TIME,
                    recompute=recompute,
                )
                if cuts is not None:
                    yield Assignment(cuts, sequence, (recompute,) * len(sequence))


def _by_layer(case: MemoryCase) -> Iterator[Assignment]:
    """Yield the layer model's answer: runs as stages, and every atom a stage of its own where that is allowed."""
    _, answer = LayerModel(case).solve(LAYER_TIME)
    if answer is None:
        return
    atoms = list(zip(*answer, strict=True))
    runs = [list(group) for _, group in groupby(range(len(atoms)), key=lambda a: atoms[a])]
    most = case.request.max_stages_per_rank or len(atoms)
    for stages in (runs, [[a] for a in range(len(atoms))]):
        ranks = [atoms[stage[0]][0] for stage in stages]
        if max(ranks.count(rank) for rank in set(ranks)) <= most:
            cuts = [stage[0] for stage in stages] + [len(atoms)]
            yield case.assignment(cuts, ranks, [atoms[stage[0]][1] for stage in stages])
