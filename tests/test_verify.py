"""The verifier: one hand-corrupted plan for every rule, which trips that rule and nothing else."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Document, digest
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Orders, Plan, parse_orders, plan_document
from octopipe_cli.verify import RULES, Finding, check, verify

from .instances import Instance, loaded_cluster, loaded_profile, plan_from

PROFILE: Document = {
    "schema": "octopipe.profile",
    "version": 1,
    "name": "toy",
    "kinds": {
        "embedding": {
            "times": {"gpu": {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 2, "step_ms": 0.5}},
            "state_bytes": 100,
            "output_bytes": 8,
            "role": "embedding",
        },
        "block": {
            "times": {"gpu": {"forward_ms": 2, "backward_input_ms": 2, "backward_weight_ms": 1}},
            "state_bytes": 10,
            "activation_bytes": 7,
            "weight_activation_bytes": 5,
            "output_bytes": 3,
            "workspace_bytes": 2,
        },
        "head": {
            "times": {"gpu": {"forward_ms": 1, "backward_input_ms": 2, "backward_weight_ms": 2, "backward_ms": 3}},
            "splittable": False,
            "role": "head",
        },
    },
    "layers": ["embedding", {"repeat": 4, "of": ["block"]}, "head"],
    "rules": {"same_rank": [[0, 1]], "tied": [[0, 5]], "no_cut_after": [3]},
}
CLUSTER: Document = {
    "schema": "octopipe.cluster",
    "version": 1,
    "name": "pair",
    "ranks": [{"count": 2, "hardware": "gpu", "memory_gib": 1, "node": 3}],
    "links": {"within_node": {"latency_us": 100}},
}
SPLIT = (
    ("0F0 0F1 2F0 2F1 2I0 0I0 2W0 0W0 2I1 0I1 2W1 0W1"),
    ("1F0 1F1 3F0 3B0 1I0 3F1 1W0 3B1 1I1 1W1"),
)
FUSED = ("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1")  # Megatron's, in groups of 2
STAGES = Assignment((0, 2, 3, 5, 6), (0, 1, 0, 1), (False, False, True, False))
ALIKE = Assignment((0, 2, 3, 5, 6), (0, 1, 0, 1), (False,) * 4)


def orders_of(*ranks: str) -> Orders:
    return parse_orders([[actions] for actions in ranks])


class Files(NamedTuple):
    """A plan's document and the documents it is judged against."""

    plan: Document
    profile: Document
    cluster: Document


def files(
    orders: tuple[str, ...] = SPLIT,
    stages: Assignment = STAGES,
    *,
    profile: Document = PROFILE,
    cluster: Document = CLUSTER,
    **request: Any,
) -> Files:
    """Return a plan whose figures are right, whether or not it keeps the rules."""
    plan = plan_from(Instance(profile, cluster, stages, orders_of(*orders), 2), **request)
    return Files(*(copy.deepcopy(document) for document in (plan_document(plan), profile, cluster)))


def judged(made: Files) -> list[Finding]:
    return verify(convert(made.plan, Plan, "plan"), loaded_profile(made.profile), loaded_cluster(made.cluster))


def test_a_valid_plan_has_no_findings() -> None:
    assert judged(files()) == []


@pytest.mark.parametrize("engine", ["any", "torch", "torchtitan", "megatron", "megatron-hybrid"])
@pytest.mark.parametrize("objective", ["step", "span"])
def test_valid_for_every_engine_that_runs_it(engine: str, objective: str) -> None:
    asked = {"placement": "cyclic", "max_stages_per_rank": 2, "backward": "fused"}
    assert judged(files(FUSED, ALIKE, engine=engine, objective=objective, **asked)) == []


def test_a_placement_goes_by_the_places_of_the_ranks() -> None:
    asked: Any = {"placement": "cyclic", "reorder_ranks": True}
    for engine in ("any", "megatron", "torchtitan"):
        made = files(SWAPPED_ORDERS, SWAPPED, engine=engine, **asked)
        assert {finding.rule for finding in judged(made)} >= {"placement-request"}
        made.plan["rank_order"] = [1, 0]
        made.plan.pop("content_digest", None)
        assert judged(made) == []


def test_blocking_transfers_are_replayed() -> None:
    blocking = files(cluster=CLUSTER | {"p2p": "blocking"})
    assert judged(blocking) == []
    assert blocking.plan["predicted"]["step_time_ns"] > files().plan["predicted"]["step_time_ns"]
    plain = files(PAIR_ORDERS, PAIR, engine="megatron")
    assert judged(plain) == []
    assert (plain.plan["p2p"], plain.cluster.get("p2p")) == ("blocking", None)


def test_a_step_that_takes_no_time_is_valid() -> None:
    assert judged(files(profile=_timeless(), cluster=NO_LINKS)) == []


def test_a_v_is_valid_for_torchtitan() -> None:
    stages = Assignment((0, 2, 3, 5, 6), (0, 1, 1, 0), (False,) * 4)
    orders = ("0F0 0F1 3F0 3B0 0B0 3F1 3B1 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1")
    free = PROFILE | {"rules": {}}
    assert judged(files(orders, stages, profile=free, engine="torchtitan", placement="v", recompute="none")) == []


def test_empty_stages_are_valid_for_megatron() -> None:
    stages = Assignment((0, 2, 2, 2, 6), (0, 1, 0, 1), (False,) * 4)
    assert judged(files(FUSED, stages, profile=PROFILE | {"rules": {}}, engine="megatron")) == []


# --- one corruption a rule: what it does to right files, and where the finding must point -------------------------

Corrupt = Callable[[], Files]


def edited(*steps: Any, to: Any, base: Files | None = None) -> Files:
    """Return files whose plan has another value at the end of the steps; a callable makes it of the old one."""
    made = base or files()
    *way, last = steps
    place: Any = made.plan
    for step in way:
        place = place[step]
    place[last] = to(place[last]) if callable(to) else to
    return made


def without(*steps: Any, base: Files | None = None) -> Files:
    """Return files whose plan lacks what is at the end of the steps."""
    made = base or files()
    *way, last = steps
    place: Any = made.plan
    for step in way:
        place = place[step]
    del place[last]
    return made


def reordered(rank: int, old: str, new: str, base: Files | None = None) -> Files:
    """Return files in which a stretch of a rank's order is another."""
    text = {0: SPLIT[0], 1: SPLIT[1]}[rank]
    assert old in text
    return edited("orders", rank, to=[text.replace(old, new)], base=base)


def with_digests(made: Files) -> Files:
    """Return files whose plan has the digests of the profile and cluster beside it."""
    made.plan["inputs"]["profile"]["digest"] = digest(made.profile)
    made.plan["inputs"]["cluster"]["digest"] = digest(made.cluster)
    return made


def no_times() -> Files:
    made = files()
    for kind in made.profile["kinds"].values():
        kind["times"]["other"] = kind["times"].pop("gpu")
    return with_digests(made)


def split_where_forbidden() -> Files:
    lenient = copy.deepcopy(PROFILE)
    lenient["kinds"]["head"]["splittable"] = True
    orders = (SPLIT[0], SPLIT[1].replace("3B0", "3I0 3W0"))
    made = files(orders, profile=lenient)._replace(profile=PROFILE)
    del made.plan["stages"][3]["action_ns"]["I"], made.plan["stages"][3]["action_ns"]["W"]
    return with_digests(made)


def other_p2p(base: Files) -> Files:
    """Flip p2p where no transfer takes time, so that no figure changes."""
    made = edited("p2p", to=lambda old: "overlapped" if old == "blocking" else "blocking", base=base)
    assert not any(stage["transfer_ns"]["forward"] for stage in made.plan["stages"])
    return made


def too_small() -> Files:
    """A cluster whose first rank lacks one byte."""
    peak = files().plan["predicted"]["ranks"][0]["peak_memory_bytes"]
    least = {"hardware": "gpu", "node": 3, "memory_gib": (peak - 1) / 2**30}
    other = {"hardware": "gpu", "node": 3, "memory_gib": 1}
    return files(cluster=CLUSTER | {"ranks": [least, other]})


def engine_needs_more() -> Files:
    made = files()
    room = 2**30 - made.plan["predicted"]["ranks"][1]["peak_memory_bytes"]
    return edited("predicted", "ranks", 1, "engine_memory_bytes", to=room + 1, base=made)


def high_bound() -> Files:
    made = files()
    step = made.plan["predicted"]["step_time_ns"]
    made.plan["bound"] |= {"step_time_ns": step + 1, "gap": -1 / (step + 1)}
    return made


def high_span_bound() -> Files:
    made = files(objective="span")
    span = made.plan["predicted"]["span_ns"]
    made.plan["bound"] |= {"span_ns": span + 1, "gap": -1 / (span + 1)}
    return made


APART = Assignment((0, 1, 3, 5, 6), STAGES.ranks, STAGES.recompute)  # layers 0 and 1 on ranks 0 and 1
CUT = Assignment((0, 2, 4, 5, 6), STAGES.ranks, STAGES.recompute)  # after layer 3
EMPTY = Assignment((0, 2, 2, 5, 6), STAGES.ranks, STAGES.recompute)
WHOLE = Assignment((0, 6), (0,), (False,))
PAIR = Assignment((0, 2, 6), (0, 1), (False, False))
TRIPLE = Assignment((0, 2, 5, 6), (0, 1, 0), (False,) * 3)
SWAPPED = Assignment((0, 2, 3, 5, 6), (1, 0, 1, 0), ALIKE.recompute)
NO_LINKS = {key: value for key, value in CLUSTER.items() if key != "links"}
MEGATRON = {"cluster": NO_LINKS, "engine": "megatron"}
PAIR_ORDERS = ("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")
CROSSED_ORDERS = ("0F0 0F1 0B1 0B0", "1F0 1F1 1B0 1B1")  # a gradient is sent that is received second
TRIPLE_ORDERS = ("0F0 0F1 2F0 2B0 0B0 2F1 2B1 0B1", "1F0 1F1 1B0 1B1")
UNORDERED = ("0F0 0F1 2F0 2F1 2B0 0B0 2B1 0B1", FUSED[1])
DESCENDING = ("0F1 0F0 0B1 0B0", "1F1 1B1 1F0 1B0")
HEADLESS = Assignment((0, 0, 2, 5, 6), ALIKE.ranks, ALIKE.recompute)  # nothing in stage 0
FREE = PROFILE | {"rules": {}}
SWAPPED_ORDERS = (FUSED[1], FUSED[0])


BASELINE = {"schedule": "gpipe", "step_time_ns": 0, "speedup": 1.0}


def _timeless() -> Document:
    """The profile, its layers taking no time at all."""
    profile = copy.deepcopy(PROFILE)
    for kind in profile["kinds"].values():
        kind["times"]["gpu"] = dict.fromkeys(kind["times"]["gpu"], 0)
    return profile


def plus(number: float) -> Callable[[float], float]:
    return lambda old: old + number


CASES: list[tuple[str, str, Corrupt]] = [
    ("digest", "$.inputs.profile.digest", lambda: edited("inputs", "profile", "digest", to="sha256:" + "0" * 64)),
    ("digest", "$.inputs.cluster.digest", lambda: edited("inputs", "cluster", "digest", to="sha256:" + "0" * 64)),
    ("input-name", "$.inputs.profile.name", lambda: edited("inputs", "profile", "name", to="other")),
    ("input-name", "$.inputs.cluster.name", lambda: edited("inputs", "cluster", "name", to="other")),
    ("hardware-times", "$.inputs", no_times),
    ("rank-count", "$.ranks", lambda: without("ranks", 1)),
    ("rank-count", "$.predicted.ranks", lambda: without("predicted", "ranks", 1)),
    ("rank-count", "$.orders", lambda: edited("orders", to=lambda old: [*old, []])),
    ("rank-count", "$.predicted.ranks[1].rank", lambda: edited("predicted", "ranks", 1, "rank", to=0)),
    ("stage-cover", "$.stages[2].layers", lambda: edited("stages", 2, "layers", to=[4, 5])),
    ("stage-cover", "$.stages", lambda: edited("stages", 3, "layers", to=[5, 7])),
    ("rank-range", "$.stages[1].rank", lambda: edited("stages", 1, "rank", to=2)),
    ("empty-stage", "$.stages[1].layers", lambda: files(SPLIT, EMPTY)),
    ("idle-rank", "$.stages", lambda: files(("0F0 0F1 0B0 0B1", ""), WHOLE)),
    ("same-rank", "$.stages", lambda: files(SPLIT, APART)),
    ("no-cut", "$.stages[1].layers", lambda: files(SPLIT, CUT)),
    ("order-tokens", "$.orders[0][0]", lambda: reordered(0, "0F0", "0G0")),
    ("order-tokens", "$.orders[1][0]", lambda: reordered(1, "1F0", "-1F0")),
    ("order-tokens", "$.orders[1][0]", lambda: reordered(1, "1F0", "\N{ARABIC-INDIC DIGIT ONE}F0")),
    ("action-range", "$.orders[0]", lambda: reordered(0, "0F0", "4F0")),
    ("action-range", "$.orders[1]", lambda: reordered(1, "1F1", "1F2")),
    ("rank-order-owner", "$.orders[1]", lambda: reordered(1, "1F0", "1F0 2F0", reordered(0, " 2F0", ""))),
    ("action-set", "$.orders[0]", lambda: reordered(0, " 2W0", "")),
    ("action-set", "$.orders[0]", lambda: reordered(0, " 0F1", "")),
    ("action-set", "$.orders[0]", lambda: reordered(0, "2I0", "2I0 2B0")),
    ("action-set", "$.orders[1]", lambda: reordered(1, "3B1", "3B1 3B1")),
    ("unsplittable", "$.orders[1]", split_where_forbidden),
    ("rank-records", "$.ranks[1].hardware", lambda: edited("ranks", 1, "hardware", to="tpu")),
    ("rank-records", "$.ranks[1].node", lambda: edited("ranks", 1, "node", to=0)),
    ("rank-records", "$.ranks[0].memory_limit_bytes", lambda: edited("ranks", 0, "memory_limit_bytes", to=None)),
    ("rank-records", "$.ranks[0].step_ns", lambda: edited("ranks", 0, "step_ns", to=plus(1))),
    ("kind-roles", "$.kinds", lambda: edited("kinds", "head", to="mtp")),
    ("kind-roles", "$.kinds", lambda: without("kinds", "block")),
    ("kind-roles", "$.kinds", lambda: edited("kinds", "ghost", to="decoder")),
    ("stage-kinds", "$.stages[2].kinds", lambda: edited("stages", 2, "kinds", to=["block", "head"])),
    ("stage-kinds", "$.stages[2].kinds", lambda: edited("stages", 2, "kinds", to=["block"])),
    ("stage-kinds", "$.stages[2].kinds", lambda: edited("stages", 2, "kinds", to=[{"repeat": 3, "of": ["block"]}])),
    ("training", "$.training.tensor_parallel", lambda: edited("training", to={"tensor_parallel": 2})),
    ("training", "$.training.model_flops", lambda: edited("training", to={"model_flops": 5})),
    ("action-times", "$.stages[0].action_ns", lambda: edited("stages", 0, "action_ns", "F", to=plus(1))),
    ("action-times", "$.stages[2].action_ns", lambda: edited("stages", 2, "action_ns", "I", to=4_000_000)),
    ("action-times", "$.stages[3].action_ns", lambda: edited("stages", 3, "action_ns", "B", to=4_000_000)),
    ("action-times", "$.stages[1].action_ns", lambda: without("stages", 1, "action_ns", "W")),
    (
        "action-times",
        "$.stages[3].action_ns",
        lambda: edited("stages", 3, "action_ns", to=lambda old: old | {"I": 2_000_000}),
    ),
    ("transfer-times", "$.stages[3].transfer_ns.forward", lambda: edited("stages", 3, "transfer_ns", "forward", to=1)),
    (
        "transfer-times",
        "$.stages[1].transfer_ns.backward",
        lambda: edited("stages", 1, "transfer_ns", "backward", to=0),
    ),
    *(
        ("stage-bytes", f"$.stages[2].bytes.{key}", lambda key=key: edited("stages", 2, "bytes", key, to=plus(1)))
        for key in ("state", "held", "weight", "transient", "workspace", "input", "output")
    ),
    ("stage-bytes", "$.stages[3].bytes.state", lambda: edited("stages", 3, "bytes", "state", to=plus(-100))),
    ("p2p", "$.p2p", lambda: other_p2p(files(cluster=NO_LINKS))),
    ("p2p", "$.p2p", lambda: other_p2p(files(PAIR_ORDERS, PAIR, **MEGATRON))),
    ("p2p", "$.p2p", lambda: other_p2p(files(FUSED, ALIKE, **MEGATRON))),
    ("recompute-request", "$.stages[2].recompute", lambda: files(recompute="none")),
    ("recompute-request", "$.stages[0].recompute", lambda: files(recompute="full")),
    ("backward-request", "$.orders[0]", lambda: files(backward="fused")),
    ("rank-order", "$.rank_order", lambda: edited("rank_order", to=[1, 1], base=files(reorder_ranks=True))),
    ("rank-order", "$.rank_order", lambda: edited("rank_order", to=[1, 0])),
    ("placement-request", "$.stages[2].rank", lambda: files(placement="v")),
    ("placement-request", "$.stages[0].rank", lambda: files(SWAPPED_ORDERS, SWAPPED, placement="cyclic")),
    ("max-stages", "$.stages", lambda: files(max_stages_per_rank=1)),
    ("engine-placement", "$.stages", lambda: files(FUSED, engine="deepspeed")),
    ("engine-placement", "$.stages", lambda: files(TRIPLE_ORDERS, TRIPLE, engine="megatron")),
    ("engine-placement", "$.stages[0].rank", lambda: files(SWAPPED_ORDERS, SWAPPED, engine="megatron")),
    ("engine-placement", "$.stages[0].rank", lambda: files(SWAPPED_ORDERS, SWAPPED, engine="torchtitan")),
    ("engine-backward", "$.orders", lambda: files(stages=ALIKE, engine="megatron-hybrid")),
    ("engine-order", "$.orders[0]", lambda: files(UNORDERED, ALIKE, engine="megatron")),
    ("engine-order", "$.orders[1]", lambda: files(DESCENDING, PAIR, engine="torch")),
    ("engine-stages", "$.stages[2].recompute", lambda: files(FUSED, engine="megatron")),
    ("engine-stages", "$.stages[1]", lambda: files(FUSED, HEADLESS, profile=FREE, engine="megatron")),
    ("deadlock", "$.orders", lambda: reordered(0, "2F0 2F1 2I0", "2F0 2I0 2F1", _crossed())),
    ("deadlock", "$.orders", lambda: reordered(0, "2I0 0I0 2W0", "2W0 0I0 2I0")),
    ("communication-deadlock", "$.orders", lambda: files(CROSSED_ORDERS, PAIR, engine="megatron")),
    ("step-time", "$.predicted.step_time_ns", lambda: edited("predicted", "step_time_ns", to=plus(1))),
    ("span", "$.predicted.span_ns", lambda: edited("predicted", "span_ns", to=plus(-1))),
    ("bubble-ratio", "$.predicted.bubble_ratio", lambda: edited("predicted", "bubble_ratio", to=plus(2e-9))),
    ("rank-times", "$.predicted.ranks[0].busy_ns", lambda: edited("predicted", "ranks", 0, "busy_ns", to=plus(1))),
    (
        "rank-times",
        "$.predicted.ranks[1].first_start_ns",
        lambda: edited("predicted", "ranks", 1, "first_start_ns", to=plus(1)),
    ),
    (
        "rank-times",
        "$.predicted.ranks[1].last_end_ns",
        lambda: edited("predicted", "ranks", 1, "last_end_ns", to=plus(1)),
    ),
    (
        "peak-memory",
        "$.predicted.ranks[1].peak_memory_bytes",
        lambda: edited("predicted", "ranks", 1, "peak_memory_bytes", to=plus(-1)),
    ),
    ("memory-limit", "$.predicted.ranks[0]", too_small),
    ("memory-limit", "$.predicted.ranks[1]", engine_needs_more),
    ("bound", "$.bound.step_time_ns", high_bound),
    ("bound", "$.bound.span_ns", high_span_bound),
    ("bound", "$.bound.plan_ns", lambda: edited("bound", to=lambda old: old | {"plan_ns": 10**12})),
    ("bound", "$.bound", lambda: without("bound", "span_ns", base=files(objective="span"))),
    ("gap", "$.bound.gap", lambda: edited("bound", "gap", to=plus(1e-8))),
    ("gap", "$.bound.gap", lambda: edited("bound", "gap", to=plus(1e-8), base=files(objective="span"))),
    (
        "speedup",
        "$.baseline",
        lambda: edited("baseline", to=BASELINE, base=files(profile=_timeless(), cluster=NO_LINKS)),
    ),
    ("speedup", "$.baseline.speedup", lambda: edited("baseline", "speedup", to=plus(1e-8))),
    ("content-digest", "$.content_digest", lambda: edited("created_by", to="me", base=_sealed())),
]


def _sealed() -> Files:
    """The plan with its content's digest."""
    made = files()
    made.plan["content_digest"] = digest(made.plan)
    return made


def _crossed() -> Files:
    """Rank 1 runs the second micro-batch of stage 1 only after stage 3's backward, which waits for nothing else."""
    return reordered(1, "1F0 1F1 3F0 3B0 1I0 3F1", "1F0 3F0 3F1 1F1 3B0 1I0")


#: An order whose messages deadlock is none that the engine runs.
ALSO = {"communication-deadlock": {"engine-order"}}


@pytest.mark.parametrize(("rule", "path", "corrupt"), CASES, ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)])
def test_each_rule_is_tripped_alone(rule: str, path: str, corrupt: Corrupt) -> None:
    findings = judged(corrupt())
    assert {finding.rule for finding in findings} - ALSO.get(rule, set()) == {rule}
    assert next(finding.path for finding in findings if finding.rule == rule) == path


def test_every_rule_has_a_corruption() -> None:
    assert [rule.id for rule in RULES] == list(dict.fromkeys(rule for rule, _, _ in sorted(CASES, key=_place)))
    assert len({rule.function for rule in RULES}) == len(RULES)
    before: set[str] = set()
    for rule in RULES:  # a rule is passed over where an earlier one it needs is broken: it can only need earlier ones
        assert before.issuperset(rule.needs)
        before.add(rule.id)


def _place(case: tuple[str, str, Corrupt]) -> int:
    return [rule.id for rule in RULES].index(case[0])


# --- what findings say ----------------------------------------------------------------------------------------------


def test_deadlock_names_the_circle() -> None:
    (finding,) = judged(reordered(0, "2I0 0I0 2W0", "2W0 0I0 2I0"))
    assert finding.message == "found 2W0 waits for 2I0 waits for 2W0, expected orders without a circle"


def test_deadlock_across_ranks_names_the_circle() -> None:
    # Rank 0 wants 0B0 (which needs 1B0) before 0F1, rank 1 wants 1F1 (which needs 0F1) before 1B0.
    made = files(PAIR_ORDERS, PAIR)
    made.plan["orders"] = [["0F0 0B0 0F1 0B1"], ["1F0 1F1 1B0 1B1"]]
    (finding,) = judged(made)
    circle = "0B0 waits for 1B0 waits for 1F1 waits for 0F1 waits for 0B0"
    assert finding.message == f"found {circle}, expected orders without a circle"


def test_findings_are_all_there() -> None:
    made = edited("predicted", "step_time_ns", to=plus(1))
    made = edited("p2p", to="blocking", base=edited("stages", 0, "bytes", "state", to=0, base=made))
    made.plan["inputs"]["profile"]["name"] = "other"
    rules = [finding.rule for finding in judged(made)]
    assert rules[:4] == ["input-name", "stage-bytes", "p2p", "step-time"]


def test_missing_actions_are_counted_by_stage() -> None:
    made = files()
    made.plan["orders"] = [[], []]
    findings = judged(made)
    assert [finding.rule for finding in findings] == ["action-set"] * 4
    expected = "expected F and either B or I and W (1 more micro-batches are wrong)"
    assert findings[0].message == f"stage 0, micro-batch 0: found nothing, {expected}"


@pytest.mark.parametrize("group", [[3, 5, 1], [3, 1, 5]])
def test_the_tied_copy_counts_at_the_lowest_layer_of_its_rank(group: list[int]) -> None:
    # Layers 1 and 5 share layer 3's weights. Rank 0 holds layers 0, 1 and 5 and lacks layer 3: one copy, with layer 1.
    profile = copy.deepcopy(PROFILE) | {"rules": {"tied": [group]}}
    stages = Assignment((0, 2, 3, 5, 6), (0, 1, 1, 0), (False,) * 4)
    orders = ("0F0 0F1 3F0 3B0 0B0 3F1 3B1 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1")
    made = files(orders, stages, profile=profile)
    assert judged(made) == []
    assert [stage["bytes"]["state"] for stage in made.plan["stages"]] == [110 + 10, 10, 20, 0]
    moved = edited("stages", 3, "bytes", "state", to=10, base=edited("stages", 0, "bytes", "state", to=110, base=made))
    assert [finding.path for finding in judged(moved)] == ["$.stages[0].bytes.state", "$.stages[3].bytes.state"]


def test_kinds_no_layer_has_may_be_left_out() -> None:
    profile = copy.deepcopy(PROFILE)
    profile["kinds"]["spare"] = profile["kinds"]["block"] | {"role": "mtp"}
    assert judged(files(profile=profile)) == []
    assert judged(without("kinds", "spare", base=files(profile=profile))) == []
    wrong = judged(edited("kinds", "spare", to="head", base=files(profile=profile)))
    assert wrong == [Finding("kind-roles", "$.kinds", '"spare": found "head", expected "mtp"')]


def test_check_passes_a_valid_plan() -> None:
    made = files()
    check(convert(made.plan, Plan, "plan"), loaded_profile(made.profile), loaded_cluster(made.cluster))


def test_check_names_the_first_finding() -> None:
    made = edited("predicted", "span_ns", to=7, base=edited("predicted", "step_time_ns", to=7))
    with pytest.raises(InvalidPlanError) as caught:
        check(convert(made.plan, Plan, "plan"), loaded_profile(made.profile), loaded_cluster(made.cluster))
    assert caught.value.path == "$.predicted.step_time_ns"
    assert caught.value.message.startswith("the plan breaks the rule step-time: found 7 ns, expected ")
    assert caught.value.message.endswith(" (1 more findings)")


def test_it_loads_nothing_of_what_it_judges() -> None:
    code = "import sys, octopipe_cli.verify; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "octopipe_cli.verify" in loaded
    unwanted = {
        "octopipe_cli.simulate",
        "octopipe_cli.pipeline",
        "numpy",
        "numba",
        "ortools",
        "pandas",
        "rich",
        "typer",
    }
    assert unwanted.isdisjoint(loaded)
