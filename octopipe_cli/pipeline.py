"""Profile x cluster x assignment -> what every stage costs, in whole nanoseconds and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import show
from octopipe_cli.lengths import Lengths, MicroBatch, lengths_of, scaled_bytes, scaled_ns
from octopipe_cli.plan import Action, ActionKind, Plan, StageBytes
from octopipe_cli.profile import Kind, Profile, Times


@dataclass(frozen=True, slots=True)
class Assignment:
    """Partition and placement.

    Attributes
    ----------
    cuts
        S + 1 layer indices: stage s holds layers cuts[s] .. cuts[s + 1] - 1.
    ranks
        The rank of each stage.
    recompute
        Whether each stage recomputes its activations.
    """

    cuts: tuple[int, ...]
    ranks: tuple[int, ...]
    recompute: tuple[bool, ...]

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return len(self.ranks)

    def layers(self, stage: int) -> range:
        """Return the layers of a stage."""
        return range(self.cuts[stage], self.cuts[stage + 1])


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage costs: times of its actions (I and W missing where it may not split), transfers, bytes."""

    action_ns: dict[ActionKind, int]
    forward_transfer_ns: int
    backward_transfer_ns: int
    bytes: StageBytes
    recompute: bool


@dataclass(frozen=True)
class Pipeline:
    """Stages on ranks with their costs: all a simulator needs to know besides the orders.

    Attributes
    ----------
    num_microbatches
        Micro-batches of a step.
    rank_of
        The rank of each stage.
    stages
        The cost of each stage, for a micro-batch of the profile's length.
    step_ns, limit_bytes
        For each rank: time after its last action; memory limit, None where unlimited.
    p2p
        Whether a sender's transfers overlap its computation.
    apart
        For each stage its cost by micro-batch, where these differ; None where they are all alike.
    microbatch_order
        Which numbers of the lists of lengths the micro-batches are; None where in the lists' order.
    """

    num_microbatches: int
    rank_of: tuple[int, ...]
    stages: tuple[StageCost, ...]
    step_ns: tuple[int, ...]
    limit_bytes: tuple[int | None, ...]
    p2p: P2P = "overlapped"
    apart: tuple[tuple[StageCost, ...], ...] | None = None
    microbatch_order: tuple[int, ...] | None = None

    def cost(self, stage: int, microbatch: int) -> StageCost:
        """Return what a stage costs for one micro-batch."""
        return self.stages[stage] if self.apart is None else self.apart[stage][microbatch]

    def costs(self, stage: int) -> tuple[StageCost, ...]:
        """Return what a stage costs, once for all micro-batches that are alike and in their order."""
        return self.stages[stage : stage + 1] if self.apart is None else self.apart[stage]

    def changed(self, change: Callable[[int, StageCost], StageCost]) -> Pipeline:
        """Return the pipeline with other costs; `change` gets each stage's number and cost."""
        stages = tuple(change(s, cost) for s, cost in enumerate(self.stages))
        apart = self.apart
        if apart is not None:
            apart = tuple(tuple(change(s, cost) for cost in costs) for s, costs in enumerate(apart))
        return replace(self, stages=stages, apart=apart)

    @property
    def num_ranks(self) -> int:
        """How many ranks there are."""
        return len(self.step_ns)

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return len(self.rank_of)

    @cached_property
    def stages_of(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each rank, ascending."""
        held: list[list[int]] = [[] for _ in range(self.num_ranks)]
        for stage, rank in enumerate(self.rank_of):
            held[rank].append(stage)
        return tuple(map(tuple, held))

    def duration_ns(self, action: Action) -> int:
        """Return how long an action takes."""
        return self.cost(action.stage, action.microbatch).action_ns[action.kind]

    def may_split(self, stage: int) -> bool:
        """Return whether a stage may run I and W apart."""
        return "I" in self.stages[stage].action_ns

    def state_bytes(self, rank: int) -> int:
        """Return what a rank holds at all times."""
        return sum(self.stages[stage].bytes.state for stage in self.stages_of[rank])

    @cached_property
    def with_transfers(self) -> bool:
        """Whether any transfer takes time."""
        costs = (cost for stage in range(self.num_stages) for cost in self.costs(stage))
        return any(cost.forward_transfer_ns or cost.backward_transfer_ns for cost in costs)


def layer_ns(milliseconds: float, speed: float) -> int:
    """Return a layer's time on a rank: nearest ns to ms * 1e6 / speed (formats.md, Cluster)."""
    return round(milliseconds * 1e6 / speed)


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The times of one layer on one rank, in ns, without overhead; `backward` is B in one piece."""

    forward: int
    input: int
    weight: int
    backward: int
    step: int

    def at(self, quadratic_share: float, length: float) -> LayerTimes:
        """Return the times for a micro-batch of another length; the optimizer's step stays."""
        if length == 1:
            return self
        passes = (self.forward, self.input, self.weight, self.backward)
        forward, into, weight, backward = (scaled_ns(time_ns, quadratic_share, length) for time_ns in passes)
        return LayerTimes(forward, into, weight, backward, self.step)


def layer_times(times: Times, speed: float) -> LayerTimes:
    """Return the integer times of a layer on a rank of that speed."""
    into, weight = layer_ns(times.backward_input_ms, speed), layer_ns(times.backward_weight_ms, speed)
    whole = into + weight if times.backward_ms is None else layer_ns(times.backward_ms, speed)
    return LayerTimes(layer_ns(times.forward_ms, speed), into, weight, whole, layer_ns(times.step_ms, speed))


def check_hardware(profile: Profile, cluster: Cluster, profile_file: str, cluster_file: str) -> None:
    """Raise InputError where the cluster names a hardware some kind has no times for."""
    for index, group in enumerate(cluster.ranks):
        for name, kind in profile.kinds.items():
            if group.hardware not in kind.times:
                raise InputError(
                    f"the kind {show(name)} of {profile_file} has no times for {show(group.hardware)}",
                    file=cluster_file,
                    path=f"$.ranks[{index}].hardware",
                    found=show(group.hardware),
                    expected="one of " + ", ".join(map(show, profile.hardware)) if profile.hardware else None,
                    remedy="name hardware that every kind of the profile has times for (of a cluster in a line: "
                    "8xa100-80gb:times=NAME), or make a profile: octopipe init",
                )


def tied_copies(profile: Profile, ranks_of_layers: Sequence[int]) -> list[tuple[int, int]]:
    """Return (layer, bytes) for each copy of tied weights: at the first layer of its group on that rank."""
    copies = []
    for group in profile.rules.tied:
        owner = group[0]
        seen = {ranks_of_layers[owner]}
        for layer in sorted(group[1:]):
            if ranks_of_layers[layer] not in seen:
                seen.add(ranks_of_layers[layer])
                copies.append((layer, profile.kind_of(owner).state_bytes))
    return copies


def build_pipeline(
    profile: Profile,
    cluster: Cluster,
    assignment: Assignment,
    num_microbatches: int,
    p2p: P2P | None = None,
    lengths: Lengths | None = None,
) -> Pipeline:
    """Return the pipeline of an assignment; `p2p` overrides the cluster's (an engine's own rule)."""
    stages = assignment.num_stages
    ranks_of_layers = [assignment.ranks[s] for s in range(stages) for _ in assignment.layers(s)]
    extra = dict.fromkeys(range(stages), 0)
    owner_stage = [s for s in range(stages) for _ in assignment.layers(s)]
    for layer, size in tied_copies(profile, ranks_of_layers):
        extra[owner_stage[layer]] += size
    costs = tuple(_stage_cost(profile, cluster, assignment, s, extra[s], {}) for s in range(stages))
    apart = None
    if lengths is not None:
        apart = tuple(_costs_apart(profile, cluster, assignment, s, extra[s], lengths) for s in range(stages))
    members = cluster.members
    step = [0] * len(members)
    for layer, rank in enumerate(ranks_of_layers):
        member = members[rank]
        step[rank] += layer_ns(profile.kind_of(layer).times[member.hardware].step_ms, member.speed)
    return Pipeline(
        num_microbatches,
        assignment.ranks,
        costs,
        tuple(step),
        tuple(member.memory_limit_bytes for member in members),
        p2p or cluster.p2p,
        apart,
        None if lengths is None else lengths.order,
    )


def _costs_apart(
    profile: Profile, cluster: Cluster, assignment: Assignment, stage: int, copies: int, lengths: Lengths
) -> tuple[StageCost, ...]:
    """Return a stage's cost for each micro-batch; those that are alike share one."""
    made: dict[int, StageCost] = {}
    distinct = lengths.distinct()
    for m in dict.fromkeys(distinct):
        made[m] = _stage_cost(profile, cluster, assignment, stage, copies, lengths.microbatches[m])
    return tuple(made[m] for m in distinct)


def _stage_cost(
    profile: Profile,
    cluster: Cluster,
    assignment: Assignment,
    stage: int,
    copies: int,
    lengths: MicroBatch,
) -> StageCost:
    def length(kind: Kind) -> float:
        return lengths.get(kind.modality, 1)

    rank = assignment.ranks[stage]
    member = cluster.members[rank]
    layers = assignment.layers(stage)
    kinds = [profile.kind_of(layer) for layer in layers]
    times = [
        layer_times(kind.times[member.hardware], member.speed).at(kind.quadratic_share, length(kind)) for kind in kinds
    ]
    recompute = assignment.recompute[stage]
    overhead = cluster.action_overhead_ns
    forward = sum(t.forward for t in times)
    again = forward if recompute else 0
    action_ns: dict[ActionKind, int] = {"F": overhead + forward}
    if all(kind.splittable for kind in kinds):
        action_ns["I"] = overhead + sum(t.input for t in times) + again
        action_ns["W"] = overhead + sum(t.weight for t in times)
    action_ns["B"] = overhead + sum(t.backward for t in times) + again

    def boundary(layer: int) -> int:
        if not 0 <= layer < profile.num_layers:
            return 0
        kind = profile.kind_of(layer)
        return scaled_bytes(kind.output_bytes, length(kind))

    last = assignment.num_stages - 1
    into = boundary(layers.start - 1) if stage else 0
    out = boundary(layers.stop - 1) if stage < last else 0
    activations = [scaled_bytes(kind.activation_bytes, length(kind)) for kind in kinds]
    sizes = StageBytes(
        state=sum(kind.state_bytes for kind in kinds) + copies,
        held=sum(boundary(layer - 1) for layer in layers) if recompute else sum(activations),
        weight=sum(scaled_bytes(kind.weight_activation_bytes, length(kind)) for kind in kinds),
        transient=max(activations, default=0) if recompute else 0,
        workspace=max((scaled_bytes(kind.workspace_bytes, length(kind)) for kind in kinds), default=0),
        input=into,
        output=out,
    )
    ahead = cluster.transfer_ns(out, rank, assignment.ranks[stage + 1]) if stage < last else 0
    back = cluster.transfer_ns(into, rank, assignment.ranks[stage - 1]) if stage else 0
    return StageCost(action_ns, ahead, back, sizes, recompute)


def pipeline_of_plan(plan: Plan) -> Pipeline:
    """Return the pipeline a plan describes, from the plan alone; its micro-batches are taken to be alike."""
    stages = tuple(
        StageCost(s.action_ns, s.transfer_ns.forward, s.transfer_ns.backward, s.bytes, s.recompute) for s in plan.stages
    )
    return Pipeline(
        plan.request.num_microbatches,
        tuple(stage.rank for stage in plan.stages),
        stages,
        tuple(rank.step_ns for rank in plan.ranks),
        tuple(rank.memory_limit_bytes for rank in plan.ranks),
        plan.p2p,
    )


def pipeline_with_inputs(plan: Plan, profile: Profile, cluster: Cluster) -> Pipeline:
    """Return the pipeline a plan describes, the lengths of its micro-batches brought to bear on its profile."""
    lengths = plan_lengths(plan, profile)
    return build_pipeline(profile, cluster, assignment_of(plan), plan.request.num_microbatches, plan.p2p, lengths)


def plan_lengths(plan: Plan, profile: Profile) -> Lengths | None:
    """Return the lengths of a plan's micro-batches, in its order; None where they are alike."""
    lengths = lengths_of(profile, plan.request.lengths, plan.request.num_microbatches)
    return lengths if lengths is None or plan.microbatch_order is None else lengths.ordered(plan.microbatch_order)


def assignment_of(plan: Plan) -> Assignment:
    """Return a plan's partition and placement."""
    return Assignment(
        (0, *(stage.layers[1] for stage in plan.stages)),
        tuple(stage.rank for stage in plan.stages),
        tuple(stage.recompute for stage in plan.stages),
    )
