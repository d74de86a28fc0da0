"""Pairs of plans that differ in one thing, and the ids that must be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from octopipe_cli.conversion import convert
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.compare import added_plan, compare_plans, removed_plan
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import Plan, plan_document, sealed
from tests.diff.plans import GIB, LAYERS, all_forward_first, cluster, plan, profile
from tests.editing import edited
from tests.instances import plan_from, random_instance

SLOWER = "step-time-slower span-longer baseline-slower rank-times-changed"
FASTER = "step-time-faster span-shorter baseline-faster rank-times-changed"


class Case(NamedTuple):
    """What two plans are made with, and the ids of what changed."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    ids: str


CASES = (
    Case(
        "slower head",
        {},
        {"model": profile(kinds__head__times__a100__forward_ms=7)},
        f"{SLOWER} bubble-ratio-higher gap-larger stage-costs-changed profile-changed",
    ),
    Case(
        "a cut moved between ranks",
        {},
        {"cuts": (0, 3, 6, 8, 10)},
        f"{SLOWER} bubble-ratio-higher gap-smaller bound-higher rank-memory-lower "
        "rank-memory-higher layers-moved cuts-moved",
    ),
    Case(
        "a cut moved within a rank",
        {"ranks": (0, 0, 1, 1)},
        {"ranks": (0, 0, 1, 1), "cuts": (0, 2, 5, 8, 10)},
        f"{FASTER} bubble-ratio-lower gap-smaller cuts-moved",
    ),
    Case(
        "a stage split on its rank",
        {"cuts": (0, 5, 10), "ranks": (0, 1)},
        {"cuts": (0, 2, 5, 10), "ranks": (0, 0, 1)},
        f"{SLOWER} bubble-ratio-higher gap-larger cuts-moved stage-added placement-changed order-changed engine-lost",
    ),
    Case(
        "a stage split between ranks",
        {"cuts": (0, 5, 10), "ranks": (0, 1)},
        {"cuts": (0, 3, 5, 10), "ranks": (0, 1, 0)},
        f"{SLOWER} bubble-ratio-higher gap-smaller bound-higher rank-memory-higher rank-memory-lower layers-moved "
        "layers-moved cuts-moved stage-added order-changed order-changed engine-lost",
    ),
    Case(
        "cyclic to V",
        {},
        {"ranks": (0, 1, 1, 0)},
        f"{SLOWER} bubble-ratio-higher gap-larger bound-lower rank-memory-lower rank-memory-higher "
        "layers-moved layers-moved placement-changed order-changed order-changed",
    ),
    Case(
        "layers to another rank, placement free before and after",
        {"ranks": (0, 0, 1, 0)},
        {"ranks": (0, 0, 1, 1)},
        f"{SLOWER} bubble-ratio-higher gap-larger bound-lower rank-memory-lower rank-memory-higher "
        "layers-moved placement-changed order-changed order-changed",
    ),
    Case(
        "a stage recomputed",
        {},
        {"recompute": (False, True, False, False)},
        f"{SLOWER} bubble-ratio-lower gap-larger rank-memory-lower recompute-on",
    ),
    Case(
        "a stage split, another recomputed",
        {},
        {"cuts": (0, 2, 3, 5, 8, 10), "ranks": (0, 0, 1, 0, 1), "recompute": (False, False, True, False, False)},
        f"{SLOWER} bubble-ratio-higher gap-larger rank-memory-lower cuts-moved "
        "stage-added placement-changed recompute-on order-changed engine-lost",
    ),
    Case(
        "one layer more",
        {},
        {"model": profile((*LAYERS[:3], "attention", *LAYERS[3:])), "cuts": (0, 4, 6, 9, 11)},
        f"{SLOWER} bubble-ratio-higher gap-smaller bound-higher rank-memory-higher layers-added profile-changed",
    ),
    Case(
        "another kind",
        {},
        {"model": profile((*LAYERS[:3], "attention", *LAYERS[4:]))},
        "bubble-ratio-lower gap-smaller bound-higher rank-times-changed layer-kinds-changed profile-changed",
    ),
    Case(
        "one micro-batch more",
        {},
        {"num_microbatches": 4},
        f"{SLOWER} bubble-ratio-lower gap-smaller bound-higher rank-memory-higher "
        "rank-memory-higher order-changed order-changed microbatches-changed",
    ),
    Case(
        "split backward",
        {},
        {"orders": all_forward_first((0, 1, 0, 1), 3, split=True)},
        f"{FASTER} bubble-ratio-lower gap-smaller rank-memory-lower order-changed order-changed "
        "engine-lost engine-lost",
    ),
    Case("another engine", {}, {"engine": "torch"}, "engine-changed"),
    Case("seed and effort", {}, {"seed": 7, "effort": "thorough"}, "request-changed request-changed"),
    Case(
        "a slower head, the span asked for",
        {"objective": "span"},
        {"objective": "span", "model": profile(kinds__head__times__a100__forward_ms=7)},
        f"{SLOWER} bubble-ratio-higher gap-larger stage-costs-changed profile-changed",
    ),
    Case("the span asked for, now", {}, {"objective": "span"}, "span-bound-higher request-changed"),
    Case(
        "a rank on another node",
        {},
        {"model": profile(kinds__head__times__a100__forward_ms=5), "machine": cluster(ranks__1__node=1)},
        "rank-node-changed cluster-changed",
    ),
    Case(
        "rank added",
        {"cuts": (0, 5, 10), "ranks": (0, 1)},
        {"cuts": (0, 5, 8, 10), "ranks": (0, 1, 2), "machine": cluster(3)},
        f"{FASTER} bubble-ratio-higher gap-larger bound-lower rank-memory-higher rank-memory-lower "
        "layers-moved cuts-moved stage-added rank-added cluster-changed",
    ),
    Case(
        "a lower memory limit", {}, {"machine": cluster(ranks__0__memory_gib=12)}, "memory-limit-lower cluster-changed"
    ),
    Case(
        "no memory limit any more",
        {},
        {"machine": cluster(ranks__0__memory_gib=None)},
        "memory-limit-higher cluster-changed",
    ),
    Case(
        "a memory limit below the peak",
        {},
        {"machine": cluster(ranks__0__memory_gib=6)},
        "headroom-below memory-limit-lower cluster-changed",
    ),
    Case(
        "blocking transfers over slow links",
        {},
        {"machine": cluster(p2p="blocking", links={"within_node": {"latency_us": 100}})},
        f"{SLOWER} bubble-ratio-higher gap-larger stage-costs-changed p2p-changed cluster-changed",
    ),
    Case(
        "an optimizer step",
        {},
        {"model": profile(kinds__head__times__a100__step_ms=1)},
        "rank-step-time-changed profile-changed",
    ),
    Case(
        "larger activations",
        {},
        {"model": profile(kinds__mlp__activation_bytes=GIB // 4)},
        "rank-memory-higher rank-memory-higher stage-costs-changed profile-changed",
    ),
    Case("memory of the engine", {}, {"edits": {"predicted.ranks.0.engine_memory_bytes": GIB}}, "engine-memory-higher"),
    Case("another version", {}, {"edits": {"created_by": "octopipe 0.2.0"}}, "version-changed"),
    Case(
        "cut short by a time limit",
        {},
        {"edits": {"search": {"stopped_by": "time limit", "reproducible": False}}},
        "stopped-by-changed no-longer-reproducible",
    ),
    Case(
        "another bound",
        {},
        {
            "edits": {
                "bound": {
                    "step_time_ns": 40000000,
                    "gap": 0.9,
                    "scope": "any plan with fused backward",
                    "plan_ns": 50000000,
                }
            }
        },
        "gap-larger bound-lower plan-bound-higher bound-scope-changed",
    ),
    Case("baseline gone", {}, {"edits": {"baseline": None}}, "baseline-removed"),
    Case(
        "another baseline",
        {},
        {"edits": {"baseline": {"schedule": "gpipe", "step_time_ns": 100000000, "speedup": 1.2}}},
        "baseline-changed baseline-faster speedup-lower",
    ),
    Case(
        "orders in a circle",
        {},
        {"edits": {"orders.0": ["0B0 0B1 0B2 0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2"]}},
        "plan-invalid order-changed",
    ),
    Case(
        "an order changed by hand",
        {},
        {"edits": {"orders.0": ["0F0 0F1 0F2 2F1 2F0 2F2 2B2 2B1 2B0 0B2 0B1 0B0"]}},
        "plan-invalid order-changed",
    ),
    Case(
        "a step time changed by hand",
        {},
        {"edits": {"predicted.step_time_ns": 50000000}},
        "plan-invalid step-time-faster",
    ),
    Case("another name of the cluster", {}, {"edits": {"inputs.cluster.name": "other"}}, "cluster-changed"),
    Case("another role", {}, {"edits": {"kinds.mamba": "mtp"}}, "kind-roles-changed"),
)


def ids(old: Plan, new: Plan, **more: Any) -> list[str]:
    return [change.id for change in compare_plans(old, new, **more)]


def mirrored(names: list[str]) -> Counter[str]:
    return Counter(KINDS[name].mirror for name in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_ids_both_ways_round(case: Case) -> None:
    old, new = plan(**case.old), plan(**case.new)
    found = compare_plans(old, new)
    assert Counter(change.id for change in found) == Counter(case.ids.split())
    assert Counter(ids(new, old)) == mirrored(case.ids.split())
    assert compare_plans(old, old) == compare_plans(new, new) == []
    assert all(change.message and "\n" not in change.message for change in found)


def test_random_plans_have_mirrored_ids() -> None:
    for seed in range(60):
        rng = Random(seed)
        old, new = plan_from(random_instance(rng)), plan_from(random_instance(rng))
        assert Counter(ids(new, old)) == mirrored(ids(old, new))
        assert ids(old, old) == []


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, str(key)))
    else:
        yield ".".join(path), value


OTHER = {
    "recompute": "none",
    "engine": "torch",
    "effort": "quick",
    "backward": "fused",
    "placement": "v",
    "p2p": "blocking",
}
OTHER |= {"objective": "step", "digest": "sha256:" + "1" * 64, "max_stages_per_rank": 5}


def test_whatever_is_edited_is_a_change_with_a_mirror() -> None:
    base = plan(recompute=(False, True, False, False), objective="span")
    document = edited(plan_document(base), {})
    count = 0
    for path, value in leaves(document):
        last = path.rpartition(".")[2]
        if path in ("schema", "version") or ".layers." in path:
            continue
        if isinstance(value, bool):
            new: Any = not value
        elif isinstance(value, (int, float)):
            new = value + 1
        else:
            new = "mtp" if path.startswith("kinds") else OTHER.get(last, f"{value}x")
        changed = convert(edited(document, {path: new}), Plan, "plan")
        found = ids(base, changed)
        assert found, path
        assert Counter(ids(changed, base)) == mirrored(found), path
        count += 1
    assert count > 100
    assert ids(base, msgspec.structs.replace(base, provenance={"wall_s": 1})) == []


def message_of(name: str, changes: list[Change]) -> list[str]:
    return [change.message for change in changes if change.id == name]


def test_moved_layers_in_words() -> None:
    changes = compare_plans(plan(), plan(ranks=(0, 1, 1, 0)))
    assert message_of("layers-moved", changes) == [
        "layers 5-7 (attention, mlp, mamba) move from rank 0 to rank 1",
        "layers 8-9 (mlp, head) move from rank 1 to rank 0",
    ]
    assert message_of("placement-changed", changes) == ["the placement is V instead of cyclic"]


def test_layers_are_named_as_the_new_plan_numbers_them() -> None:
    longer = {"model": profile(("embedding", *LAYERS)), "cuts": (0, 4, 7, 9, 11)}
    changes = compare_plans(plan(), plan(**longer))
    assert message_of("layers-added", changes) == ["the model has 11 layers, 1 more than before"]
    assert message_of("layers-moved", changes) == ["layer 6 (attention) moves from rank 0 to rank 1"]
    assert message_of("cuts-moved", changes) == ["the model is cut no longer after layer 5, now after layer 6"]


def test_times_and_memory_in_words() -> None:
    changes = compare_plans(plan(), plan(cuts=(0, 3, 6, 8, 10)))
    # rank 0: 142 ms; with the attention layer on rank 1, 12 ms more
    assert message_of("step-time-slower", changes) == ["the step time grows from 142.0 ms to 154.0 ms (+8.5 %)"]
    assert message_of("rank-memory-higher", changes) == [
        "the peak memory of rank 1 grows from 5.500 GiB to 6.875 GiB (+25.0 %)"
    ]


def test_a_difference_of_a_nanosecond_is_shown() -> None:
    new = plan(edits={"predicted.step_time_ns": 142000001})
    assert message_of("step-time-slower", compare_plans(plan(), new)) == [
        "the step time grows from 142000000 ns to 142000001 ns (+0.0000 %)"
    ]


def test_another_number_of_microbatches_is_told_with_the_step_time() -> None:
    (slower,) = [c for c in compare_plans(plan(), plan(num_microbatches=4)) if c.id == "step-time-slower"]
    assert slower.details == ("for 3 micro-batches before and 4 now: 47.33 ms to 45.50 ms (-3.9 %) for each",)


def test_a_renumbered_stage_keeps_its_order() -> None:
    # Stage 0 is split on its rank: the stages of rank 1 get other numbers, and no other order.
    changes = compare_plans(plan(), plan(cuts=(0, 2, 3, 5, 8, 10), ranks=(0, 0, 1, 0, 1)))
    assert [change.path for change in changes if change.id == "order-changed"] == ["$.orders[0]"]


def test_effects_of_what_fails_without_being_asked_to() -> None:
    regressions = {kind.id for kind in KINDS.values() if kind.effect == "regression"}
    assert regressions == {"plan-invalid", "step-time-slower", "headroom-below", "no-longer-reproducible"}


def test_the_span_counts_where_it_is_the_objective() -> None:
    heavier = profile(kinds__head__times__a100__forward_ms=7)
    for objective, effect in (("step", "neutral"), ("span", "regression")):
        changes = compare_plans(plan(objective=objective), plan(objective=objective, model=heavier))
        assert [change.effect for change in changes if change.id == "span-longer"] == [effect]


def test_headroom_is_measured_against_what_is_asked_for() -> None:
    # Rank 0 needs 8.281 GiB, of 16 and of 10.
    old, new = plan(), plan(machine=cluster(ranks__0__memory_gib=10))
    asked = Thresholds(min_headroom_bytes=2 * GIB)
    assert "headroom-below" not in ids(old, new)
    assert "headroom-below" in ids(old, new, thresholds=asked)
    assert "headroom-recovered" in ids(new, old, thresholds=asked)
    assert message_of("headroom-below", compare_plans(old, new, thresholds=asked)) == [
        "rank 0 has 1.72 GiB of memory left, 2.00 GiB are asked for"
    ]


def test_engine_memory_counts_in_the_headroom() -> None:
    new = plan(edits={"predicted.ranks.0.engine_memory_bytes": 8 * GIB})
    assert "headroom-below" in ids(plan(), new)


def test_an_edited_plan_does_not_hold() -> None:
    old = sealed(plan())
    new = msgspec.structs.replace(old, bound=msgspec.structs.replace(old.bound, scope="mine"))
    assert ids(old, new) == ["plan-invalid", "bound-scope-changed"]
    assert ids(new, old) == ["plan-repaired", "bound-scope-changed"]
    assert ids(old, msgspec.structs.replace(old, content_digest=None)) == ["field-changed"]


def test_what_was_wrong_before_is_no_new_finding() -> None:
    wrong = {"orders.0": ["0B0 0B1 0B2 0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2"]}
    assert ids(plan(edits=wrong), plan(edits=wrong, seed=3)) == ["request-changed"]


@pytest.mark.parametrize(
    "edits",
    [
        {"stages.1.layers": [7, 3]},
        {"stages.1.layers": [900, 905]},
        {"stages.0.rank": 900},
        {"stages.0.kinds": [{"repeat": 10000, "of": [{"repeat": 10000, "of": ["mamba"]}]}]},
        {"orders.0": ["not an action"]},
        {"orders.0": []},
        {"orders.0": ["9F0 0F9999999"]},
        {"predicted.ranks": []},
        {"predicted.ranks.0.rank": 900},
        {"stages.0.action_ns": {}},
        {"stages.0.layers": [0, 1000000]},
    ],
    ids=str,
)
def test_a_broken_plan_is_a_finding_and_no_failure(edits: dict[str, Any]) -> None:
    whole, broken = plan(), plan(edits=edits)
    found = ids(whole, broken)
    assert found[0] == "plan-invalid"
    assert Counter(ids(broken, whole)) == mirrored(found)


def test_a_new_plan_is_checked_too() -> None:
    assert [change.id for change in added_plan(plan(), Thresholds())] == ["plan-added"]
    small = plan(machine=cluster(ranks__0__memory_gib=6), edits={"predicted.span_ns": 1})
    found = added_plan(small, Thresholds())
    assert [change.id for change in found] == ["plan-added", "plan-invalid", "headroom-below"]
    assert [change.effect for change in found] == ["neutral", "regression", "regression"]
    assert [change.id for change in removed_plan(small, Thresholds())] == ["plan-removed"]


def test_the_engine_and_the_rule_are_told() -> None:
    """One stage more on rank 0 than on rank 1: torchtitan's placement is broken, PyTorch's own is not."""
    split = next(case for case in CASES if case.name == "a stage split on its rank")
    changes = compare_plans(plan(**split.old), plan(**split.new))
    lost = [change for change in changes if change.id == "engine-lost"]
    assert [(change.old, change.effect) for change in lost] == [("torchtitan", "neutral")]
    assert lost[0].message == (
        "torchtitan no longer runs the plan: 3 stages are not the same number on each of 2 ranks"
    )
