from __future__ import annotations

from collections.abc import Iterable

import pytest

from octopipe_cli.profiling.architecture import Layer
from octopipe_cli.profiling.attention import attention, latent_attention
from octopipe_cli.profiling.blocks import (
    Attention,
    Block,
    Embedding,
    GatedDeltaNet,
    Head,
    LatentAttention,
    Mamba1,
    Mamba2,
    Mlp,
    Moe,
    Norm,
    Parallel,
    Shared,
)
from octopipe_cli.profiling.kernels import attention_core, projection, visible_keys
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.operations import Exchange, Operation, Product, Step, Work, flops_of
from octopipe_cli.profiling.setting import Setting

HIDDEN = 64
SETTING = Setting(128, 2, sequence_parallel=False)
TOKENS = 256


def flops(blocks: Iterable[Block], which: str, setting: Setting = SETTING) -> int:
    operations = lower(Layer("layer", tuple(blocks)), setting, HIDDEN)
    return sum(flops_of(getattr(operation, which)) for operation in operations)


def exchanges(steps: Iterable[Step]) -> list[tuple[str, int, bool]]:
    return [(step.collective, step.bytes, step.hidden) for step in steps if isinstance(step, Exchange)]


def test_a_projection_is_three_products() -> None:
    found = projection(SETTING, "p", 64, 32)
    shapes = [
        step.product for steps in (found.forward, found.input, found.weight) for step in steps if isinstance(step, Work)
    ]
    assert shapes == [Product(1, TOKENS, 32, 64), Product(1, TOKENS, 64, 32), Product(1, 64, 32, TOKENS)]
    (forward,), (weight,) = found.forward, found.weight
    assert isinstance(forward, Work)
    assert isinstance(weight, Work)
    assert forward.bytes == 2 * (TOKENS * 64 + 64 * 32 + TOKENS * 32)
    # the weight's gradient is fp32, read and written
    assert weight.bytes == 2 * (64 * TOKENS + TOKENS * 32) + 8 * 64 * 32
    assert (found.kept_bytes, found.gradient_bytes) == (2 * TOKENS * 64, 2 * TOKENS * 32)


def test_exchanges_around_cut_projections() -> None:
    plain = Setting(128, 2, 4, sequence_parallel=False)
    column, row = projection(plain, "c", 64, 32, cut="column"), projection(plain, "r", 64, 32, cut="row")
    assert [exchanges(steps) for steps in (column.forward, column.input, column.weight)] == [
        [],
        [("all_reduce", 2 * TOKENS * 64, False)],
        [],
    ]
    assert [exchanges(steps) for steps in (row.forward, row.input, row.weight)] == [
        [("all_reduce", 2 * TOKENS * 32, False)],
        [],
        [],
    ]
    cut = Setting(128, 2, 4)
    column, row = projection(cut, "c", 64, 32, cut="column"), projection(cut, "r", 64, 32, cut="row")
    inputs, outputs = 2 * TOKENS * 64, 2 * TOKENS * 32
    assert [exchanges(steps) for steps in (column.forward, column.input, column.weight)] == [
        [("all_gather", inputs, False)],
        [("reduce_scatter", inputs, False)],
        [("all_gather", inputs, True)],
    ]
    assert [exchanges(steps) for steps in (row.forward, row.input, row.weight)] == [
        [("reduce_scatter", outputs, False)],
        [("all_gather", outputs, False)],
        [],
    ]
    assert column.kept_bytes == inputs // 4


def test_flops_of_a_dense_layer() -> None:
    layer = (Norm(HIDDEN), Attention(HIDDEN, 8, 2, 16), Norm(HIDDEN), Mlp(HIDDEN, 96))
    # models_and_costs.md: 2 T h (nq d + 2 nkv d) + 2 T nq d h, 2 s T nq d with the mask, 2 T h f 3
    products = 2 * TOKENS * HIDDEN * (8 * 16 + 2 * 2 * 16 + 8 * 16) + 6 * TOKENS * HIDDEN * 96
    core = 2 * 128 * TOKENS * 8 * 16
    assert flops(layer, "forward") == products + core
    assert flops(layer, "input") == products + core * 5 // 2
    assert flops(layer, "weight") == products
    assert flops(layer, "forward", Setting(128, 2, 2)) == (products + core) // 2
    # without flash attention the products of all pairs are computed
    plain = Setting(128, 2, flash_attention=False)
    assert flops(layer, "forward", plain) == products + 2 * core
    assert flops(layer, "input", plain) == products + 4 * core


def test_context_parallelism_shares_positions_and_passes_keys_around() -> None:
    layer = (Attention(HIDDEN, 8, 2, 16),)
    setting = Setting(128, 2, context_parallel=4)
    assert flops(layer, "forward", setting) == flops(layer, "forward") // 4
    core = attention_core(setting, 8, 2, 16, 16)
    ring = ("ring", 2 * (TOKENS // 4) * 2 * 32, True)
    assert exchanges(core.forward) == [ring]
    assert exchanges(core.input) == [ring, ring]


@pytest.mark.parametrize(
    ("window", "chunk", "keys"), [(None, None, 64), (32, None, 28), (500, None, 64), (None, 32, 16), (None, 200, 64)]
)
def test_keys_a_query_sees(window: int | None, chunk: int | None, keys: float) -> None:
    assert visible_keys(128, window, chunk) == keys


def test_keys_by_counting() -> None:
    seen = [min(position + 1, 32) for position in range(128)]
    assert visible_keys(128, 32, None) == pytest.approx(sum(seen) / 128, abs=0.5)


def test_flops_of_latent_attention() -> None:
    block = LatentAttention(HIDDEN, 4, 24, 16, 8, 4, 12)
    # q: h rq + rq nh (dn + dr), kv: h (rkv + dr) + rkv nh (dn + dv), out: nh dv h; core 2 s T nh ((dn + dr) + dv) / 2
    products = HIDDEN * 24 + 24 * 4 * 12 + HIDDEN * 20 + 16 * 4 * 20 + 4 * 12 * HIDDEN
    core = 128 * TOKENS * 4 * 24
    assert (
        sum(flops_of(operation.forward) for operation in latent_attention(block, SETTING))
        == 2 * TOKENS * products + core
    )


def test_flops_of_experts() -> None:
    block = Moe(HIDDEN, 8, 2, 32, shared_intermediate=48)
    router, expert, shared = HIDDEN * 8, 3 * HIDDEN * 32, 3 * HIDDEN * 48
    for which in ("forward", "input", "weight"):
        assert flops((block,), which) == 2 * TOKENS * (router + 2 * expert + shared)
    latent = Moe(HIDDEN, 8, 2, 32, gated=False, latent=16)
    assert flops((latent,), "forward") == 2 * TOKENS * (router + 2 * 2 * 16 * 32 + 2 * 16 * HIDDEN)


def test_experts_apart_work_on_as_many_rows_and_exchange_them() -> None:
    block = Moe(HIDDEN, 8, 2, 32)
    setting = Setting(128, 2, expert_parallel=4, data_parallel=4)
    assert flops((block,), "forward", setting) == flops((block,), "forward")
    operations = lower(Layer("moe", (block,)), setting, HIDDEN)
    sent = [exchange for operation in operations for exchange in exchanges(operation.forward)]
    assert sent == [("all_to_all", 2 * TOKENS * 2 * HIDDEN, False)] * 2
    up = next(operation for operation in operations if operation.name == "up")
    assert up.forward[0] == projection(setting, "up", HIDDEN, 64, rows=512, experts=2).forward[0]


def test_flops_of_mamba2() -> None:
    block = Mamba2(HIDDEN, 8, 16, 2, 32, 4, 64)
    products = HIDDEN * (2 * 128 + 2 * 2 * 32 + 8) + 128 * HIDDEN
    # chunks of Q: 2 T Q (g N + d) + 4 T d N
    scan = 2 * TOKENS * 64 * (2 * 32 + 128) + 4 * TOKENS * 128 * 32
    assert flops((block,), "forward") == 2 * TOKENS * products + scan
    assert flops((block,), "input") == 2 * TOKENS * products + scan * 5 // 2
    assert flops((block,), "weight") == 2 * TOKENS * products


@pytest.mark.parametrize(
    "block",
    [
        Mamba1(HIDDEN, 128, 16, 4, 8),
        Mamba2(HIDDEN, 8, 16, 2, 32, 4, 64),
        GatedDeltaNet(HIDDEN, 4, 8, 16, 16, 4),
        Attention(HIDDEN, 8, 2, 16, gate="element", qk_norm=True),
        LatentAttention(HIDDEN, 4, None, 16, 8, 4, 12),
    ],
)
def test_only_projections_have_weight_gradients(block: Block) -> None:
    operations = lower(Layer("layer", (block,)), SETTING, HIDDEN)
    for operation in operations:
        products = [step for step in operation.forward if isinstance(step, Work) and step.product]
        assert bool(operation.weight) == bool(products)
        assert operation.forward
    # every matrix product's weights are weights of the block, all but its vectors and convolutions
    weights = sum(step.product.m * step.product.n for step in _works(operations) if step.product)
    assert 0.9 * block.parameters < weights <= block.parameters + HIDDEN


def _works(operations: Iterable[Operation]) -> list[Work]:
    return [step for operation in operations for step in operation.weight if isinstance(step, Work)]


def test_branches_keep_their_input_once() -> None:
    mixer, feed_forward = Attention(HIDDEN, 8, 8, 8), Mlp(HIDDEN, 96)
    beside = lower(Layer("layer", (Norm(HIDDEN), Parallel((mixer, feed_forward)))), SETTING, HIDDEN)
    after = lower(Layer("layer", (Norm(HIDDEN), mixer, feed_forward)), SETTING, HIDDEN)
    assert sum(o.kept_bytes for o in after) - sum(o.kept_bytes for o in beside) == 2 * TOKENS * HIDDEN
    assert flops((Parallel((mixer, feed_forward)),), "weight") == flops((mixer, feed_forward), "weight")


def test_shared_blocks_work_wherever_they_are_used() -> None:
    inner = (Mlp(HIDDEN, 96),)
    assert flops((Shared(inner, 0, False),), "forward") == flops(inner, "forward")


def test_embedding_has_no_input_gradient_and_the_head_the_logits_twice() -> None:
    assert flops((Embedding(1000, HIDDEN),), "forward") == 0
    (embedding,) = lower(Layer("embedding", (Embedding(1000, HIDDEN),), "embedding"), SETTING, HIDDEN)
    assert (embedding.input, embedding.kept_bytes) == ((), 8 * TOKENS)
    for which in ("forward", "input", "weight"):
        assert flops((Head(1000, HIDDEN, predictions=3),), which) == 3 * 2 * TOKENS * 1000 * HIDDEN


def test_key_heads_fewer_than_devices_are_computed_on_several() -> None:
    setting = Setting(128, 2, 8)
    qkv = attention(Attention(HIDDEN, 8, 2, 16), setting)[0]
    work = next(step for step in qkv.forward if isinstance(step, Work))
    assert work.product == Product(1, TOKENS, 3 * 16, HIDDEN)  # a query, a key and a value head each


def test_a_window_saves_work() -> None:
    short = attention_core(SETTING, 8, 8, 16, 16, window=32)
    whole = attention_core(SETTING, 8, 8, 16, 16)
    assert flops_of(short.forward) * 64 == flops_of(whole.forward) * 28
