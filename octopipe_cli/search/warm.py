"""A search that begins from an old plan: what of it the new inputs and the request still admit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.engines import why_not
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.lengths import Lengths
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Engine, Orders, Plan, Request
from octopipe_cli.profile import Profile
from octopipe_cli.replay import checked_orders
from octopipe_cli.search.starts import places_freely
from octopipe_cli.simulate import Timeline, simulate


@dataclass(frozen=True)
class WarmStart:
    """An old plan's partition and placement, and its orders.

    Attributes
    ----------
    fused
        For each stage whether it ran B.
    orders
        None where the request asks for another number of micro-batches or another backward, or for an engine that does
        not run them.
    microbatch_order
        The old plan's order of micro-batches that differ.
    """

    assignment: Assignment
    fused: tuple[bool, ...]
    orders: Orders | None
    microbatch_order: tuple[int, ...] | None = None

    @property
    def rank_of_layer(self) -> list[int]:
        """The rank of every layer."""
        return rank_of_layer(self.assignment)

    def timeline(
        self,
        profile: Profile,
        cluster: Cluster,
        num_microbatches: int,
        p2p: P2P | None = None,
        lengths: Lengths | None = None,
    ) -> Timeline | None:
        """Return the old orders on the new inputs; None where these do not admit them."""
        if self.orders is None:
            return None
        if lengths is not None and self.microbatch_order is not None:
            lengths = lengths.ordered(self.microbatch_order)
        pipeline = build_pipeline(profile, cluster, self.assignment, num_microbatches, p2p, lengths)
        if any(action.kind not in pipeline.stages[action.stage].action_ns for row in self.orders for action in row):
            return None  # a stage that may not split any more
        try:
            timeline = simulate(pipeline, self.orders)
        except InvalidPlanError:  # with other transfers: blocking ones may wait for themselves
            return None
        return timeline if timeline.fits else None


def rank_of_layer(assignment: Assignment) -> list[int]:
    """Return the rank of every layer."""
    return [rank for stage, rank in enumerate(assignment.ranks) for _ in assignment.layers(stage)]


def warm_start(plan: Loaded[Plan], profile: Profile, cluster: Cluster, request: Request) -> WarmStart:
    """Return what a new search can begin from.

    Raises
    ------
    InputError
        Where the plan does not hold, is one of other layers or ranks, or is not admitted by the profile's rules or by
        the request.
    """
    old = plan.value
    try:
        orders = checked_orders(old, plan.file)
    except InvalidPlanError as error:
        raise InputError(
            error.message, file=plan.file, path=error.path, remedy="begin from a plan that holds"
        ) from None
    _check_size(plan, "layers", old.stages[-1].layers[1], profile.num_layers)
    _check_size(plan, "ranks", len(old.ranks), cluster.num_ranks)
    empty_too = request.engine.startswith("megatron")
    kept = [stage for stage in old.stages if empty_too or stage.layers[0] < stage.layers[1]]
    forced = {"none": False, "full": True}.get(request.recompute)
    assignment = Assignment(
        (0, *(stage.layers[1] for stage in kept)),
        tuple(stage.rank for stage in kept),
        tuple(stage.recompute if forced is None else forced for stage in kept),
    )
    problem = _broken_rule(assignment, profile, cluster.num_ranks, request)
    if problem is not None:
        raise InputError(
            f"the search cannot begin from this plan: {problem}",
            file=plan.file,
            path="$.stages",
            remedy="plan without this plan, or change the request",
        )
    whole = {action.stage for row in orders for action in row if action.kind == "B"}
    split = {action.stage for row in orders for action in row if action.kind == "I"}
    same = (
        len(kept) == len(old.stages)
        and old.request.num_microbatches == request.num_microbatches
        and not (request.backward == "fused" and split)
        and _engine_runs(old, request.engine)
    )
    fused = tuple(request.backward == "fused" or stage in whole for stage in range(len(old.stages)))
    fused = tuple(mark for mark, stage in zip(fused, old.stages, strict=True) if stage in kept)
    order = None if request.keep_order or old.microbatch_order is None else tuple(old.microbatch_order)
    return WarmStart(assignment, fused, orders if same else None, order)


def _engine_runs(old: Plan, engine: Engine) -> bool:
    """Return whether an engine runs the old plan; symbols of megatron-hybrid's layers are the export's concern."""
    return engine == "any" or all(violation.rule == "kinds" for violation in why_not(old, engine))


def _check_size(plan: Loaded[Plan], what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise InputError(
            f"the search cannot begin from a plan of other {what}",
            file=plan.file,
            path="$.ranks" if what == "ranks" else "$.stages",
            found=f"{found} {what}",
            expected=f"{wanted}, as in the {'cluster' if what == 'ranks' else 'profile'}",
            remedy="plan without this plan",
        )


def _broken_rule(assignment: Assignment, profile: Profile, num_ranks: int, request: Request) -> str | None:
    """Return in words which rule of the profile or the request an assignment breaks."""
    on = rank_of_layer(assignment)
    for layer in profile.rules.no_cut_after:
        if layer + 1 in assignment.cuts[1:-1]:
            return f"it cuts the model after layer {layer}, which the profile does not allow"
    for group in profile.rules.same_rank:
        if len({on[layer] for layer in group}) > 1:
            return f"layers {', '.join(map(str, group))} must share a rank"
    if set(on) != set(range(num_ranks)):
        return "a rank has no layer"
    return broken_request(assignment, num_ranks, request)


def broken_request(assignment: Assignment, num_ranks: int, request: Request) -> str | None:
    """Return in words what of the request an assignment does not keep."""
    count, most = assignment.num_stages, request.max_stages_per_rank
    if most is not None and max(Counter(assignment.ranks).values()) > most:
        return f"a rank has more than the {most} stages requested"
    up = tuple(range(num_ranks))
    patterns = {"cyclic": up, "v": up + up[::-1]}
    wanted = ["cyclic", "v"] if request.placement == "free" else [request.placement]
    if request.engine == "torchtitan" and count != 2 * num_ranks:
        wanted = [placement for placement in wanted if placement != "v"]
    if places_freely(request) or any((patterns[name] * count)[:count] == assignment.ranks for name in wanted):
        return None
    return f"its stages are not placed as requested ({' or '.join(wanted)})"


def moved_layers(assignment: Assignment, before: list[int]) -> int:
    """Return how many layers are not on the rank they were on."""
    return sum(new != old for new, old in zip(rank_of_layer(assignment), before, strict=True))


def labels_as_before(assignment: Assignment, before: list[int], num_ranks: int) -> list[int]:
    """Return a number for each rank, for interchangeable ones: those that share most layers keep theirs, greedily."""
    shared = Counter(zip(rank_of_layer(assignment), before, strict=True))
    labels: dict[int, int] = {}
    for (new, old), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if new not in labels and old not in labels.values():
            labels[new] = old
    rest = [old for old in range(num_ranks) if old not in labels.values()]
    for new in range(num_ranks):
        if new not in labels:
            labels[new] = rest.pop(0)
    return [labels[new] for new in range(num_ranks)]


def relabelled(assignment: Assignment, labels: list[int]) -> Assignment:
    """Return an assignment with other numbers for its ranks."""
    return Assignment(assignment.cuts, tuple(labels[rank] for rank in assignment.ranks), assignment.recompute)


def with_run_put_back(new: Assignment, old: Assignment) -> list[Assignment]:
    """Return for each run of layers that moved together the new assignment with that run where it was.

    Cuts inside the run are the old ones, those outside the new ones.
    """
    here, there = rank_of_layer(new), rank_of_layer(old)
    last = len(here)
    runs, begin = [], 0
    for layer in range(1, last + 1):
        if layer == last or (here[layer], there[layer]) != (here[begin], there[begin]):
            if here[begin] != there[begin]:
                runs.append((begin, layer))
            begin = layer
    return [_put_back(new, old, begin, stop) for begin, stop in runs]


def _put_back(new: Assignment, old: Assignment, begin: int, stop: int) -> Assignment:
    ranks = [*rank_of_layer(new)[:begin], *rank_of_layer(old)[begin:stop], *rank_of_layer(new)[stop:]]
    marks = [*_marks(new)[:begin], *_marks(old)[begin:stop], *_marks(new)[stop:]]
    cuts = [0]
    for at in range(1, len(ranks)):
        inside, edge = begin < at < stop, at in (begin, stop)
        cut = at in old.cuts if inside else at in new.cuts and not edge
        if cut or ranks[at - 1] != ranks[at]:
            cuts.append(at)
    cuts.append(len(ranks))
    firsts = [first for first, _ in pairwise(cuts)]
    return Assignment(tuple(cuts), tuple(ranks[at] for at in firsts), tuple(marks[at] for at in firsts))


def _marks(assignment: Assignment) -> list[bool]:
    return [mark for stage, mark in enumerate(assignment.recompute) for _ in assignment.layers(stage)]
