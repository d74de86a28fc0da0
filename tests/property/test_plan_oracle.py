"""Plans of random instances against the outside oracle, the classic schedules and, where small, all there is.

``pytest -m slow tests/property/test_plan_oracle.py`` draws a thousand.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from types import ModuleType
from typing import Any

import pytest

from octopipe_cli.classic import classic_rows
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InfeasibleError, LimitError
from octopipe_cli.formats import Document
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import Plan, Request, plan_document
from octopipe_cli.profile import Profile
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.least_memory import serial_orders
from octopipe_cli.simulate import simulate

from ..instances import load_oracle, loaded_cluster, loaded_profile, oracle_refusal, random_instance

TINY = Budget(0.05, 0.02, 0.02, 20_000, ((2, 1, 20_000),), 5_000)
SMALL = 4_000  # so many assignments are tried where no plan is said to fit


def random_request(rng: Random, num_microbatches: int) -> Request:
    return Request(
        num_microbatches=num_microbatches,
        recompute=rng.choice(("auto", "auto", "none", "full")),
        effort="quick",
        seed=rng.randint(0, 5),
        backward=rng.choice(("split", "split", "fused")),
        placement=rng.choice(("free", "free", "free", "cyclic", "v")),
        objective=rng.choice(("step", "step", "span")),
        max_stages_per_rank=rng.choice((None, None, None, 1, 2, 3)),
    )


def squeezed(rng: Random, cluster: Document) -> Document:
    """Return a cluster whose limits are scaled: from generous to too little."""
    made: Document = copy.deepcopy(cluster)
    factor = rng.choice((4, 1.5, 1, 1, 0.7, 0.4, 0.1))
    for group in made["ranks"]:
        if group["memory_gib"] is not None:
            room = group["memory_gib"] - group.get("reserved_gib", 0)
            group["memory_gib"] = group.get("reserved_gib", 0) + max(room * factor, 2**-30)
    return made


class Drawn:
    """A random instance and what is asked for it."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        instance = random_instance(rng)
        self.profile = instance.profile
        self.cluster = squeezed(rng, instance.cluster)
        self.request = random_request(rng, instance.num_microbatches)

    def plan(self, **how: Any) -> Plan:
        return make_plan(
            loaded_profile(self.profile), loaded_cluster(self.cluster), self.request, **{"budget": TINY, **how}
        )

    @property
    def model(self) -> Profile:
        return loaded_profile(self.profile).value

    @property
    def ranks(self) -> Cluster:
        return loaded_cluster(self.cluster).value

    def check_request(self, plan: Plan) -> None:
        """The plan keeps what was asked for; the oracle knows nothing of that."""
        ranks = [stage.rank for stage in plan.stages]
        count, request = self.ranks.num_ranks, self.request
        actions = "".join("".join(text) for order in plan.orders for text in order)
        if request.backward == "fused":
            assert "I" not in actions
            assert "W" not in actions
        if request.recompute != "auto":
            assert {stage.recompute for stage in plan.stages} == {request.recompute == "full"}
        if request.max_stages_per_rank:
            assert max(Counter(ranks).values()) <= request.max_stages_per_rank
        if request.placement == "cyclic":
            assert ranks == [s % count for s in range(len(ranks))]
        if request.placement == "v":
            assert ranks == [min(s % (2 * count), 2 * count - 1 - s % (2 * count)) for s in range(len(ranks))]

    def check_classic(self, plan: Plan) -> None:
        """The plan is at least as good as every classic schedule that fits and keeps the request."""
        request = self.request
        rows = classic_rows(
            self.model,
            self.ranks,
            request.num_microbatches,
            recompute=request.recompute,
            max_stages_per_rank=request.max_stages_per_rank,
        )
        for row in rows:
            if not row.fits or (request.backward == "fused" and row.split):
                continue
            if request.placement not in ("free", row.placement):
                continue
            if request.objective == "span":
                assert plan.predicted.span_ns <= row.span_ns
            else:
                assert plan.predicted.step_time_ns <= row.step_time_ns

    def assignments(self) -> Iterator[Assignment] | None:
        """Yield every assignment the rules and the request allow; None where there are too many."""
        layers, ranks = self.model.num_layers, self.ranks.num_ranks
        rules, request = self.model.rules, self.request
        legal = [cut for cut in range(1, layers) if cut - 1 not in rules.no_cut_after]
        most = min(len(legal) + 1, ranks * (request.max_stages_per_rank or layers))
        if sum(1 for n in range(ranks, most + 1) for _ in combinations(legal, n - 1)) > SMALL:
            return None
        choices = {"auto": (False, True), "none": (False,), "full": (True,)}[request.recompute]
        total = sum(
            len(list(combinations(legal, n - 1))) * (ranks**n if request.placement == "free" else 1) * len(choices) ** n
            for n in range(ranks, most + 1)
        )
        return self._assignments(legal, most, choices) if total <= SMALL else None

    def _assignments(self, legal: list[int], most: int, choices: tuple[bool, ...]) -> Iterator[Assignment]:
        layers, ranks, request = self.model.num_layers, self.ranks.num_ranks, self.request
        for n in range(ranks, most + 1):
            for placed in product(range(ranks), repeat=n):
                counts = Counter(placed)
                if len(counts) < ranks or max(counts.values()) > (request.max_stages_per_rank or n):
                    continue
                round_trip = [min(s % (2 * ranks), 2 * ranks - 1 - s % (2 * ranks)) for s in range(n)]
                if request.placement == "cyclic" and placed != tuple(s % ranks for s in range(n)):
                    continue
                if request.placement == "v" and placed != tuple(round_trip):
                    continue
                for inner, recompute in product(combinations(legal, n - 1), product(choices, repeat=n)):
                    made = Assignment((0, *inner, layers), placed, recompute)
                    on = [placed[s] for s in range(n) for _ in made.layers(s)]
                    if all(len({on[layer] for layer in group}) == 1 for group in self.model.rules.same_rank):
                        yield made

    def pipeline(self, assignment: Assignment) -> Pipeline:
        return build_pipeline(self.model, self.ranks, assignment, self.request.num_microbatches)


def hold(seed: int, oracle: ModuleType, *, classic: bool) -> str:
    """Plan an instance, hold the plan against the oracle and say how it ended."""
    drawn = Drawn(seed)
    try:
        plan = drawn.plan()
    except (InfeasibleError, LimitError) as error:
        proven = isinstance(error, InfeasibleError)
        assignments = drawn.assignments()
        if assignments is None:
            return "proven infeasible" if proven else "no plan found"
        for assignment in assignments:
            pipeline = drawn.pipeline(assignment)
            if simulate(pipeline, serial_orders(pipeline)).fits:
                assert not proven, (seed, assignment)
                return "missed"
        return "proven infeasible, looked through" if proven else "infeasible, not proven"
    assert oracle_refusal(oracle, drawn.profile, drawn.cluster, plan_document(plan)) is None, seed
    drawn.check_request(plan)
    if classic:
        drawn.check_classic(plan)
    limited = any(group["memory_gib"] is not None for group in drawn.cluster["ranks"])
    return "plan within limits" if limited else "plan"


@pytest.mark.parametrize("part", range(4))
def test_plans_hold_against_the_oracle(part: int) -> None:
    oracle = load_oracle()
    ends = Counter(hold(seed, oracle, classic=seed % 4 == 0) for seed in range(part * 25, part * 25 + 25))
    assert ends["plan"] + ends["plan within limits"] >= 12, ends
    assert not ends["missed"], ends
    assert ends["no plan found"] + ends["infeasible, not proven"] <= 3, ends


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_plans_hold_against_the_oracle(part: int) -> None:
    oracle = load_oracle()
    ends: Counter[str] = Counter()
    for seed in range(1000 + part * 100, 1100 + part * 100):
        end = hold(seed, oracle, classic=True)
        ends[end] += 1
        if end in ("missed", "no plan found"):
            print(f"{end}: {seed}")
    print(dict(ends))
    assert ends["plan within limits"] >= 20
    assert not ends["missed"]
