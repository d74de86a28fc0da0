"""What a verdict rests on: the plan beside what its profile and cluster make of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from octopipe_cli.cluster import Cluster
from octopipe_cli.engines import Violation, why_not
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import TOKEN, Plan, PlanStage, StageBytes
from octopipe_cli.profile import Kind, Profile
from octopipe_cli.verify.replay import KIND_BITS, Deadlock, Replay, replay

#: What a rule finds: the place in the plan, and found and expected in words.
Found = Iterator[tuple[str, str]]

#: An action as the verifier handles it: stage, kind, micro-batch.
Step = tuple[int, str, int]

FUSED: Final = KIND_BITS["F"] | KIND_BITS["B"]
SPLIT: Final = KIND_BITS["F"] | KIND_BITS["I"] | KIND_BITS["W"]


class StageFacts(NamedTuple):
    """What profile and cluster say of one stage; `action_ns` has all four kinds, whether it may split or not."""

    action_ns: dict[str, int]
    may_split: bool
    forward_ns: int
    backward_ns: int
    bytes: StageBytes


class Case:
    """A plan under judgement; everything is worked out when a rule first asks for it."""

    def __init__(self, plan: Plan, profile: Loaded[Profile], cluster: Loaded[Cluster]) -> None:
        self.plan = plan
        self.profile = profile
        self.cluster = cluster
        self.kinds = profile.value.layer_kinds
        self.members = cluster.value.members
        self.num_microbatches = plan.request.num_microbatches

    @property
    def megatron(self) -> bool:
        """Whether the plan is for one of the engines that take empty stages."""
        return self.plan.request.engine in ("megatron", "megatron-hybrid")

    @cached_property
    def engine_violations(self) -> list[Violation]:
        """The rules of the plan's engine that it breaks."""
        return why_not(self.plan, self.plan.request.engine)

    def rank_at(self, place: int) -> int:
        """Return the rank at a place along the model: of that number, unless the plan has an order of ranks."""
        order = self.plan.rank_order
        return place if order is None or place >= len(order) else order[place]

    @property
    def one_stage_a_rank(self) -> bool:
        """Whether there are as many stages as ranks."""
        return len(self.plan.stages) == len(self.members)

    def kinds_of(self, stage: PlanStage) -> list[Kind]:
        """Return the kinds of a stage's layers, by the profile."""
        return [self.profile.value.kinds[name] for name in self.kinds[slice(*stage.layers)]]

    @cached_property
    def stage_of_layer(self) -> list[int]:
        """The stage of every layer."""
        return [s for s, stage in enumerate(self.plan.stages) for _ in range(*stage.layers)]

    @cached_property
    def rank_of_layer(self) -> list[int]:
        """The rank of every layer."""
        return [self.plan.stages[s].rank for s in self.stage_of_layer]

    @cached_property
    def tokens(self) -> tuple[list[list[Step]], list[tuple[int, int, str]]]:
        """The actions of each rank, and (rank, line, token) of what is no action."""
        orders: list[list[Step]] = []
        strange = []
        for rank, lines in enumerate(self.plan.orders):
            actions: list[Step] = []
            for index, line in enumerate(lines):
                for token in line.split():
                    match = TOKEN.fullmatch(token)
                    if match:
                        stage, kind, microbatch = match.groups()
                        actions.append((int(stage), kind, int(microbatch)))
                    else:
                        strange.append((rank, index, token))
            orders.append(actions)
        return orders, strange

    @property
    def orders(self) -> list[list[Step]]:
        """The actions of each rank."""
        return self.tokens[0]

    @cached_property
    def kinds_met(self) -> dict[int, int]:
        """For stage x num_microbatches + micro-batch, the kinds that stand in the orders, as the sum of their bits."""
        met: dict[int, int] = {}
        count = self.num_microbatches
        for actions in self.orders:
            for stage, kind, microbatch in actions:
                unit = stage * count + microbatch
                met[unit] = met.get(unit, 0) | KIND_BITS[kind]
        return met

    @cached_property
    def split_stages(self) -> list[int]:
        """The stages that run an I or a W, ascending."""
        return sorted({stage for actions in self.orders for stage, kind, _ in actions if kind in "IW"})

    def times_ns(self, kind: Kind, rank: int) -> tuple[int, int, int, int, int]:
        """Return F, I, W, B and step time of a layer on a rank, without overhead: nearest ns to ms * 1e6 / speed."""
        _, hardware, _, speed, _ = self.members[rank]
        times = kind.times[hardware]
        forward = round(times.forward_ms * 1e6 / speed)
        into = round(times.backward_input_ms * 1e6 / speed)
        weight = round(times.backward_weight_ms * 1e6 / speed)
        whole = into + weight if times.backward_ms is None else round(times.backward_ms * 1e6 / speed)
        return forward, into, weight, whole, round(times.step_ms * 1e6 / speed)

    @cached_property
    def step_ns(self) -> list[int]:
        """For each rank, what its layers take after its last action."""
        total = [0] * len(self.members)
        for name, rank in zip(self.kinds, self.rank_of_layer, strict=True):
            total[rank] += self.times_ns(self.profile.value.kinds[name], rank)[4]
        return total

    @cached_property
    def copy_bytes(self) -> list[int]:
        """For each stage, the tied weights kept there because their first layer is on another rank."""
        extra = [0] * len(self.plan.stages)
        for group in self.profile.value.rules.tied:
            home = self.rank_of_layer[group[0]]
            lowest: dict[int, int] = {}
            for layer in group:
                rank = self.rank_of_layer[layer]
                lowest[rank] = min(layer, lowest.get(rank, layer))
            for rank, layer in lowest.items():
                if rank != home:
                    extra[self.stage_of_layer[layer]] += self.profile.value.kind_of(group[0]).state_bytes
        return extra

    @cached_property
    def stages(self) -> list[StageFacts]:
        """What profile and cluster say of every stage, for a micro-batch of the profile's length."""
        return [self._facts(s, {}) for s in range(len(self.plan.stages))]

    @cached_property
    def units(self) -> list[StageFacts]:
        """What they say of each stage x num_microbatches + micro-batch."""
        count, lists = self.num_microbatches, self.plan.request.lengths or {}
        numbers = self.plan.microbatch_order or range(count)
        known: dict[tuple[int, tuple[float, ...]], StageFacts] = {}
        facts = []
        for s, alike in enumerate(self.stages):
            for number in numbers:
                lengths = {name: values[number] for name, values in lists.items()}
                key = (s, tuple(lengths.values()))
                if key not in known:
                    known[key] = self._facts(s, lengths) if any(r != 1 for r in key[1]) else alike
                facts.append(known[key])
        return facts

    def _edge_bytes(self, edge: int, lengths: Mapping[str, float]) -> int:
        """Return the size of what crosses from layer edge - 1 to layer edge; nothing enters the first."""
        return _stretched(self.profile.value.kind_of(edge - 1), lengths, "output_bytes") if edge else 0

    def _facts(self, s: int, lengths: Mapping[str, float]) -> StageFacts:
        stage, cluster = self.plan.stages[s], self.cluster.value
        kinds = self.kinds_of(stage)
        first, stop = stage.layers
        times = [_slowed(self.times_ns(kind, stage.rank), kind, lengths) for kind in kinds]
        forward, into, weight, whole = (sum(t[i] for t in times) for i in range(4))
        again = forward if stage.recompute else 0
        overhead = round(cluster.action_overhead_us * 1e3)
        action_ns = {"F": forward, "I": into + again, "W": weight, "B": whole + again}
        last = len(self.plan.stages) - 1
        enters = self._edge_bytes(first, lengths) if s else 0
        leaves = self._edge_bytes(stop, lengths) if s < last else 0
        activations = [_stretched(kind, lengths, "activation_bytes") for kind in kinds]
        kept_inputs = sum(self._edge_bytes(layer, lengths) for layer in range(first, stop))
        return StageFacts(
            {kind: overhead + time for kind, time in action_ns.items()},
            all(kind.splittable for kind in kinds),
            cluster.transfer_ns(leaves, stage.rank, self.plan.stages[s + 1].rank) if s < last else 0,
            cluster.transfer_ns(enters, stage.rank, self.plan.stages[s - 1].rank) if s else 0,
            StageBytes(
                state=sum(kind.state_bytes for kind in kinds) + self.copy_bytes[s],
                held=kept_inputs if stage.recompute else sum(activations),
                weight=sum(_stretched(kind, lengths, "weight_activation_bytes") for kind in kinds),
                transient=max(activations, default=0) if stage.recompute else 0,
                workspace=max((_stretched(kind, lengths, "workspace_bytes") for kind in kinds), default=0),
                input=enters,
                output=leaves,
            ),
        )

    @cached_property
    def played(self) -> Replay | Deadlock:
        """The replay of the orders, or the circle it runs into."""
        return replay(self)

    @property
    def timeline(self) -> Replay:
        """The replay of orders known not to wait for themselves."""
        assert isinstance(self.played, Replay)
        return self.played


def _slowed(times: Sequence[int], kind: Kind, lengths: Mapping[str, float]) -> list[int]:
    """Return F, I, W, B of a layer for a micro-batch: nearest ns to t * ((1 - q) r + q r^2)."""
    r, q = lengths.get(kind.modality, 1), kind.quadratic_share
    return [t if r == 1 else round(t * ((1 - q) * r + q * r * r)) for t in times[:4]]


def _stretched(kind: Kind, lengths: Mapping[str, float], field: str) -> int:
    """Return a size of a layer for a micro-batch, nearest to r times it."""
    size: int = getattr(kind, field)
    r = lengths.get(kind.modality, 1)
    return size if r == 1 else round(size * r)
