from __future__ import annotations

import msgspec
import pytest

from octopipe_cli.engines import ENGINES, engine_p2p, why_not
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, least_group_size, one_f_one_b
from octopipe_cli.engines.renumber import by_last_stage
from octopipe_cli.plan import Engine, Plan, TransferTimes, parse_orders, write_orders
from tests.engines.plans import gpt, order_of, plan_of, with_stage
from tests.render.plans import v_plan

PLAIN = gpt("Et|ttL", 2, one_f_one_b(2, 4), 4)
LOOPED = gpt("Et|t|t|mL", 2, interleaved_1f1b(2, 5, 2, 3), 5)
SPLIT = order_of("0F0 0F1 0B0 0B1", "1F0 1I0 1W0 1F1 1B1")
#: The last stage's forwards descend.
BACKWARDS = order_of("0F0 0F1 0B1 0B0", "1F1 1B1 1F0 1B0")


def rules(plan: Plan, engine: Engine) -> list[str]:
    return [violation.rule for violation in why_not(plan, engine)]


def engines_of(plan: Plan) -> list[str]:
    return [engine for engine in ENGINES if not why_not(plan, engine)]


def test_one_stage_a_rank_under_1f1b_runs_everywhere() -> None:
    assert engines_of(PLAIN) == ["any", "torch", "torchtitan", "megatron", "megatron-hybrid", "deepspeed"]


def test_interleaved_orders_run_but_for_deepspeed() -> None:
    assert engines_of(LOOPED) == ["any", "torch", "torchtitan", "megatron"]
    assert rules(LOOPED, "deepspeed") == ["placement"]
    assert rules(LOOPED, "megatron-hybrid") == ["kinds"]  # the kind mtp has no symbols
    assert why_not(LOOPED, "megatron-hybrid", {"mtp": "*-"}) == []


def test_a_split_backward() -> None:
    plan = gpt("Et|tL", 2, SPLIT, 2)
    assert engines_of(plan) == ["any", "torch", "torchtitan"]
    assert why_not(plan, "megatron") == [
        ("fused", "$.orders", "the backward is split in I and W (stages 1), and must run in one piece, B")
    ]


def test_the_first_stage_of_torch_runs_b() -> None:
    plan = gpt("Et|tL", 2, order_of("0F0 0I0 0W0", "1F0 1B0"), 1)
    assert [(each.rule, each.path) for each in why_not(plan, "torch")] == [("first-whole", "$.orders[0]")]
    assert rules(plan, "any") == []


def test_recomputed_stages_of_torch_run_b() -> None:
    plan = with_stage(gpt("Et|tL", 2, SPLIT, 2), 1, recompute=True)
    assert rules(plan, "torch") == ["recomputed-whole"]


def test_forwards_of_the_last_stage_ascend_once_renumbered() -> None:
    plan = gpt("Et|tL", 2, BACKWARDS, 2)
    found = why_not(plan, "torch")
    assert [(each.rule, each.path) for each in found] == [("last-forwards", "$.orders[1]")]
    assert "1F1 before 1F0" in found[0].message
    orders = by_last_stage(parse_orders(plan.orders))
    assert orders == order_of("0F1 0F0 0B0 0B1", "1F0 1B0 1F1 1B1")
    assert why_not(msgspec.structs.replace(plan, orders=write_orders(orders)), "torch") == []


def test_placements_of_torchtitan() -> None:
    assert rules(with_stage(v_plan(), 0, recompute=False), "torchtitan") == ["first-whole"]
    stages = [["embedding"], ["transformer"], ["head"]]
    orders = order_of("0F0 2F0 2B0 0B0", "1F0 1B0")
    uneven = plan_of(stages, [0, 1, 0], orders, 1)
    assert rules(uneven, "torchtitan") == ["placement"]
    assert rules(uneven, "torch") == []
    swapped = plan_of([["embedding"], ["head"]], [1, 0], order_of("1F0 1B0", "0F0 0B0"), 1)
    assert why_not(swapped, "torchtitan")[0].path == "$.stages[0].rank"


def test_a_rank_without_a_stage() -> None:
    plan = plan_of([["embedding", "head"]], [1], order_of("", "0F0 0B0"), 1)
    assert rules(plan, "torch") == ["every-rank"]


def test_empty_stages_are_megatron_s() -> None:
    plan = gpt("Et||t|L", 2, interleaved_1f1b(2, 2, 2), 2)
    assert [name for name in ENGINES if "empty-stage" in rules(plan, name)] == [
        "any",
        "torch",
        "torchtitan",
        "deepspeed",
    ]
    assert rules(plan, "megatron") == []


@pytest.mark.parametrize(
    ("ranks", "microbatches", "size", "legal"), [(2, 5, 3, True), (2, 5, 4, False), (3, 4, 4, True), (3, 5, 4, False)]
)
def test_group_sizes(ranks: int, microbatches: int, size: int, legal: bool) -> None:
    text = "|".join(["Et", *["t"] * (2 * ranks - 2), "tL"])
    usable = size if legal else least_group_size(ranks, microbatches)
    plan = gpt(text, ranks, interleaved_1f1b(ranks, microbatches, 2, usable), microbatches)
    if not legal:  # the first rank's forwards in groups of that size, whatever comes after
        tokens = sorted(
            " ".join(plan.orders[0]).split(),
            key=lambda token: (token[1] != "F", int(token[2:]) // size, int(token[0]), int(token[2:])),
        )
        plan = msgspec.structs.replace(plan, orders=[[" ".join(tokens)], *plan.orders[1:]])
    assert rules(plan, "megatron") == ([] if legal else ["group-size"])


def test_an_order_that_is_none_of_megatron_s() -> None:
    plan = gpt("Et|tL", 2, order_of("0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"), 3)
    assert why_not(plan, "megatron") == [
        ("order", "$.orders[0]", "action 2 of rank 0 is 0F2, and 0B0 under 1F1B, the only order that runs")
    ]
    assert rules(plan, "deepspeed") == ["order"]


def test_two_stages_on_one_rank_are_not_interleaved() -> None:
    plan = gpt("Et|tL", 1, order_of("0F0 1F0 1B0 0B0"), 1)
    assert rules(plan, "megatron") == ["group-size"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("|EttL", "embedding"),
        ("EtL|", "head"),
        ("Etm|L", "mtp"),  # on rank 0
        ("EL|t", "layer-order"),
        ("tE|L", "layer-order"),
        ("Etm|tL", "layer-order"),
        ("t|tL", "layer-order"),  # no embedding
    ],
)
def test_where_the_ends_of_the_model_sit(text: str, rule: str) -> None:
    assert rules(gpt(text, 2, one_f_one_b(2, 2), 2), "megatron") == [rule]


@pytest.mark.parametrize(
    ("text", "broken"),
    [("E|t|m|L", True), ("E|t|tm|mL", True), ("E|m||L", True), ("E|t||mL", False), ("E|t|t|mL", False)],
)
def test_mtp_is_in_the_last_chunk_of_a_rank_above_0(text: str, broken: bool) -> None:
    plan = gpt(text, 2, interleaved_1f1b(2, 2, 2), 2)
    assert rules(plan, "megatron") == (["mtp"] if broken else [])


def test_mtp_of_hybrids_is_in_the_last_stage() -> None:
    plan = gpt("E|t|m|L", 4, one_f_one_b(4, 2), 2)
    assert rules(plan, "megatron") == []
    assert [each.rule for each in why_not(plan, "megatron-hybrid", {"mtp": "*-"})] == ["mtp"]


def test_megatron_recomputes_everywhere_or_nowhere() -> None:
    plan = with_stage(gpt("Et||t|tL", 2, interleaved_1f1b(2, 2, 2), 2), 2, recompute=True)
    assert rules(plan, "megatron") == ["recompute"]
    for stage in (0, 3):  # the empty one does not count
        plan = with_stage(plan, stage, recompute=True)
    assert rules(plan, "megatron") == []


def test_transfers_of_megatron() -> None:
    slow = TransferTimes(forward=5, backward=0)
    plain, looped = with_stage(PLAIN, 0, transfer_ns=slow), with_stage(LOOPED, 0, transfer_ns=slow)
    assert rules(plain, "megatron") == ["p2p"]
    assert rules(msgspec.structs.replace(plain, p2p="blocking"), "megatron") == []
    assert rules(looped, "megatron") == []
    assert rules(msgspec.structs.replace(looped, p2p="blocking"), "megatron") == ["p2p"]
    assert [engine_p2p("megatron", count, "overlapped") for count in (1, 2)] == ["blocking", "overlapped"]
    assert engine_p2p("torch", 1, "blocking") == "blocking"


@pytest.mark.parametrize("kind", ["attention", "mlp", "moe", "mamba", "mamba_mlp", "sliding_attention", "mlp_2"])
def test_kinds_that_are_no_layers_of_a_gpt_model(kind: str) -> None:
    plan = plan_of([["embedding"], [kind, "head"]], [0, 1], one_f_one_b(2, 1), 1)
    assert rules(plan, "megatron") == ["kinds"]


@pytest.mark.parametrize("kind", ["transformer", "attention_mlp", "sliding_attention_moe", "attention_moe_2", "block7"])
def test_kinds_that_are(kind: str) -> None:
    plan = plan_of([["embedding"], [kind, "head"]], [0, 1], one_f_one_b(2, 1), 1)
    assert rules(plan, "megatron") == []


def test_kinds_of_hybrids() -> None:
    stages = [["embedding", "mamba", "mlp"], ["attention", "moe", "linear_attention", "head"]]
    plan = plan_of(stages, [0, 1], one_f_one_b(2, 1), 1)
    (found,) = why_not(plan, "megatron-hybrid")
    assert found.rule == "kinds"
    assert '"linear_attention"' in found.message
    assert "--symbol linear_attention=" in found.message
    assert why_not(plan, "megatron-hybrid", {"linear_attention": "G"}) == []
