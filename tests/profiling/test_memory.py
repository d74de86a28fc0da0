from __future__ import annotations

import pytest

from octopipe_cli.profiling.architecture import Layer
from octopipe_cli.profiling.blocks import Attention, Embedding, Head, LatentAttention, Mlp, Moe, Norm
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.memory import (
    Weights,
    activation_bytes,
    least_weight_activation_bytes,
    output_bytes,
    state_bytes,
    weight_activation_bytes,
    weights_of,
)
from octopipe_cli.profiling.setting import Setting
from tests.benchmarks.vtrain_error import gpt

GIB = 2**30
#: 2205.05198, figure 1: name, hidden, layers, micro-batch, heads, ranks, chunks, GiB without and with sequence
#: parallelism and selective recomputation.
PUBLISHED = [
    ("22B", 6144, 48, 4, 64, 1, 1, 59.25, 9.56),
    ("175B", 12288, 96, 1, 96, 8, 3, 66.84, 12.35),
    ("530B", 20480, 105, 1, 128, 35, 3, 114.02, 23.08),
    ("1T", 25600, 128, 1, 160, 64, 1, 131.25, 26.56),
]


def gpt_layer(hidden: int, heads: int, setting: Setting) -> int:
    layer = gpt(hidden, heads, 1, setting.sequence_length, 51200).layers[1]
    return activation_bytes(lower(layer, setting, hidden))


@pytest.mark.parametrize(("name", "h", "layers", "b", "heads", "p", "v", "none", "selective"), PUBLISHED)
def test_activations_of_megatrons_published_cases(
    name: str, h: int, layers: int, b: int, heads: int, p: int, v: int, none: float, selective: float
) -> None:
    factor = layers * (1 + (p - 1) / (p * v) if v > 1 else 1) / GIB
    plain = Setting(2048, b, 8, sequence_parallel=False, flash_attention=False, dropout=True, rotary=False)
    assert gpt_layer(h, heads, plain) * factor == pytest.approx(none, rel=1e-3)
    cut = Setting(2048, b, 8, dropout=True, rotary=False)
    assert gpt_layer(h, heads, cut) * factor == pytest.approx(selective, rel=2e-3)


@pytest.mark.parametrize("t", [1, 2, 8])
def test_a_layers_activations_by_the_formula(t: int) -> None:
    s, b, h, a = 128, 2, 512, 8
    setting = Setting(s, b, t, sequence_parallel=False, flash_attention=False, dropout=True, rotary=False)
    # s b h (10 + 24 / t + 5 a s / (h t)), 2205.05198 equation 2
    assert gpt_layer(h, a, setting) == s * b * h * 10 + s * b * h * 24 // t + 5 * a * s * s * b // t


def test_logits_are_kept_in_fp32_behind_norm_and_input() -> None:
    setting = Setting(128, 2, 4, sequence_parallel=True)
    head = Layer("head", (Norm(512), Head(32000, 512)), "head")
    # 4 s b h / t (1 + v / h), Megatron's theoretical_memory_usage.py
    assert activation_bytes(lower(head, setting, 512)) == 4 * 128 * 2 * 512 // 4 + 4 * 128 * 2 * 32000 // 4


def test_split_backward_keeps_everything_and_gradients_of_outputs() -> None:
    setting = Setting(128, 1, sequence_parallel=False)
    layer = Layer("mlp", (Norm(512), Mlp(512, 1024)))
    operations = lower(layer, setting, 512)
    unit = 2 * 128
    # kept: norm's input, up's input, both halves, down's input
    assert activation_bytes(operations) == unit * (512 + 512 + 2048 + 1024)
    # more at W: gradients of norm, up and down
    assert weight_activation_bytes(operations) == activation_bytes(operations) + unit * (512 + 2048 + 512)
    # what W cannot do without: inputs and gradients of the two products
    assert least_weight_activation_bytes(operations) == unit * (512 + 2048 + 1024 + 512)


def test_the_losss_softmax_is_free_after_the_inputs_gradient() -> None:
    setting = Setting(128, 2, 4, sequence_parallel=True)
    operations = lower(Layer("head", (Norm(512), Head(32000, 512)), "head"), setting, 512)
    inputs, logits = 2 * 128 * 2 * 512 // 4, 2 * 128 * 2 * 32000 // 4
    # inputs of norm and projection, the gradients of their outputs: logits in bf16, no longer in fp32
    assert weight_activation_bytes(operations) == 3 * inputs + logits == 4_292_608
    assert least_weight_activation_bytes(operations) == inputs + logits


def test_experts_keep_their_outputs_and_the_routing() -> None:
    setting = Setting(128, 2, sequence_parallel=False)
    operations = lower(Layer("moe", (Moe(64, 8, 2, 32),)), setting, 64)
    positions, rows = 256, 512
    router = 2 * positions * 64
    routing = 4 * positions * 8 + rows * (2 * 4 + 4 * 8)
    experts = 2 * rows * (64 + 2 * 32 + 32)  # up's input, both halves, down's input
    outputs = 2 * rows * 64
    assert activation_bytes(operations) == router + routing + experts + outputs == 290_816
    gradients = 2 * positions * 8 + 2 * rows * (2 * 32 + 64)  # of logits, of up's and down's outputs
    assert weight_activation_bytes(operations) == 290_816 + gradients == 425_984
    # neither the outputs nor the routing is a factor of a weight's gradient
    assert least_weight_activation_bytes(operations) == router + 2 * rows * (64 + 32) + gradients


@pytest.mark.parametrize(
    ("block", "degree", "outputs", "routing"),
    [
        (Moe(64, 8, 2, 32), 4, 2 * 128 * 64, 4 * 64 * 8 + 40 * 128),
        (Moe(64, 8, 2, 32, latent=16), 1, 2 * 512 * 16, 4 * 256 * 8 + 40 * 512),
        (Moe(64, 8, 2, 32, zero_experts=3), 1, 2 * 512 * 64, 4 * 256 * 11 + 40 * 512),
    ],
    ids=["cut with the sequence", "in the latent's width", "experts that do nothing"],
)
def test_outputs_and_routing_of_experts(block: Moe, degree: int, outputs: int, routing: int) -> None:
    operations = {each.name: each for each in lower(Layer("moe", (block,)), Setting(128, 2, degree), 64)}
    assert (operations["combine"].kept_bytes, operations["routing"].kept_bytes) == (outputs, routing)


@pytest.mark.parametrize(
    ("more", "each"),
    [
        ({"zero": 0, "data_parallel": 4}, 18),
        ({"zero": 1, "data_parallel": 4}, 6 + 12 / 4),
        ({"zero": 2, "data_parallel": 4}, 2 + 16 / 4),
        ({"zero": 3, "data_parallel": 4}, 18 / 4),
        ({"zero": 1, "data_parallel": 2, "context_parallel": 4}, 6 + 12 / 8),
        ({"grad_dtype": "bf16"}, 16),
        ({"optimizer": "sgd"}, 14),
        ({"optimizer": "muon"}, 14),
    ],
)
def test_bytes_of_state_a_weight(more: dict[str, object], each: float) -> None:
    assert state_bytes([Weights(800)], Setting(64, 1, **more)) == 800 * each  # type: ignore[arg-type]


def test_muon_trains_embeddings_with_adam() -> None:
    setting = Setting(64, 1, optimizer="muon")
    layer = Layer("embedding", (Embedding(1000, 16),), "embedding")
    assert state_bytes(weights_of(layer, setting), setting) == 18 * 16000


def test_experts_are_spread_and_their_states_cut_over_fewer_replicas() -> None:
    setting = Setting(64, 1, tensor_parallel=2, expert_parallel=4, data_parallel=8)
    (found,) = weights_of(Layer("moe", (Moe(16, 8, 2, 32, gated=False, shared_intermediate=32),)), setting)
    shared = 2 * 16 * 32
    assert (found.dense, found.expert) == (8 * 16 + 3 * 16 * 32 // 2 - shared // 4, 8 * 2 * 16 * 32 // 8)
    assert state_bytes([found], setting) == found.dense * 6 + -(-found.dense * 12 // 8) + found.expert * (6 + 12 // 2)


def test_projections_down_to_latents_are_whole_everywhere() -> None:
    block = LatentAttention(64, 8, 16, 8, 4, 4, 4)
    (found,) = weights_of(Layer("a", (block,)), Setting(64, 1, tensor_parallel=4))
    whole = 64 * (16 + 8 + 4)
    assert found.dense == whole + -(-(block.parameters - whole) // 4)


def test_boundaries_are_cut_with_the_sequence() -> None:
    layer = Layer("attention", (Attention(64, 4, 4, 16),), carried=2)
    assert output_bytes(layer, Setting(128, 3, 4), 64) == 2 * 2 * 128 * 3 * 64 // 4
    assert output_bytes(layer, Setting(128, 3, 4, sequence_parallel=False), 64) == 2 * 2 * 128 * 3 * 64
    assert output_bytes(layer, Setting(128, 3, context_parallel=2, data_parallel=1), 64) == 2 * 2 * 64 * 3 * 64
