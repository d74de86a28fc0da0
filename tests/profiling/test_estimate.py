from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.profile import profile_from_document
from octopipe_cli.profiling.architecture import Architecture, Layer
from octopipe_cli.profiling.blocks import Attention, Block, Embedding, GatedDeltaNet, Head, Mlp, Moe, Norm, Shared
from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.estimate import estimate, setting_provenance
from octopipe_cli.profiling.hardware import load_hardware
from octopipe_cli.profiling.setting import Setting
from tests.profiling.hardware_examples import round_hardware

SHARED = Path(__file__).parents[3] / "shared/reference"
CONFIGS = sorted((SHARED / "hf_configs").glob("*.json"))
ROUND = round_hardware()


def model(tied: bool = True) -> Architecture:
    layer = Layer("layer", (Norm(64), Attention(64, 4, 4, 16), Norm(64), Moe(64, 4, 2, 32)))
    layers = (
        Layer("embedding", (Embedding(1000, 64),), "embedding"),
        layer,
        layer,
        Layer("head", (Norm(64), Head(1000, 64, tied=tied)), "head"),
    )
    return Architecture("tiny", "made up", 64, 1000, "layer", layers, ((0, 3),) if tied else ())


def profile(setting: Setting, architecture: Architecture | None = None) -> dict[str, Any]:
    return estimate(model() if architecture is None else architecture, ROUND, setting, {"method": "estimated"})


def test_the_profile_says_what_it_was_made_for() -> None:
    setting = Setting(128, 2, 2, 2, 2, 4, zero=2, dtype="fp8")
    document = estimate(model(), ROUND, setting, setting_provenance(ROUND, setting))
    assert document["training"] == {
        "sequence_length": 128,
        "micro_batch_size": 2,
        "dtype": "fp8",
        "tensor_parallel": 2,
        "context_parallel": 2,
        "expert_parallel": 2,
        "data_parallel": 4,
    }
    provenance = document["provenance"]
    assert (provenance["hardware"], provenance["zero"], provenance["sequence_parallel"]) == ("round", 2, True)
    assert document["rules"] == {"tied": [[0, 3]]}
    assert document["layers"] == ["embedding", "layer", "layer", "head"]
    assert [document["kinds"][kind].get("role", "decoder") for kind in document["kinds"]] == [
        "embedding",
        "decoder",
        "head",
    ]
    read = profile_from_document(document, "tiny")
    assert read.num_layers == 4
    assert "rules" not in profile(Setting(128, 2), model(tied=False))


def test_times_are_whole_nanoseconds_of_the_roofline() -> None:
    # embedding: read and written, 2 x 2 x 256 x 64 bytes at 500 GB/s
    times = profile(Setting(128, 2))["kinds"]["embedding"]["times"]["round"]
    assert times["forward_ms"] == round(2 * 2 * 256 * 64 / 500e9 * 1e3, 6)
    assert times["backward_input_ms"] == 0.0


def test_a_tied_head_keeps_no_weights_and_the_embeddings_gradient_is_summed() -> None:
    tied, apart = profile(Setting(128, 2)), profile(Setting(128, 2), model(tied=False))
    assert tied["kinds"]["head"]["parameters"] == 64
    assert apart["kinds"]["head"]["parameters"] == 64 + 64000
    step = {
        name: document["kinds"]["embedding"]["times"]["round"]["step_ms"]
        for name, document in (("t", tied), ("a", apart))
    }
    # an all-reduce of 2 ranks next to each other: 4 bytes x 64000 at 50 GB/s, two hops
    assert step["t"] - step["a"] == pytest.approx((4 * 64000 / 50e9 + 2e-6) * 1e3, abs=2e-6)


def test_zero_3_gathers_weights_beside_the_work() -> None:
    cut, whole = profile(Setting(4, 1, data_parallel=4, zero=3)), profile(Setting(4, 1, data_parallel=4, zero=2))
    for which in ("forward_ms", "backward_input_ms", "backward_weight_ms"):
        assert cut["kinds"]["layer"]["times"]["round"][which] > whole["kinds"]["layer"]["times"]["round"][which]
    assert cut["kinds"]["layer"]["state_bytes"] < whole["kinds"]["layer"]["state_bytes"]


def test_layers_that_share_weights_are_not_split() -> None:
    inner = (Mlp(64, 32),)
    layers = (
        Layer("embedding", (Embedding(100, 64),), "embedding"),
        Layer("first", (Shared(inner, 0, True),)),
        Layer("again", (Shared(inner, 0, False),)),
        Layer("head", (Head(100, 64),), "head"),
    )
    kinds = profile(Setting(128, 1), Architecture("shared", "made up", 64, 100, "layer", layers, ((1, 2),)))["kinds"]
    assert (kinds["first"]["splittable"], kinds["again"]["splittable"]) == (False, False)
    assert (kinds["again"]["parameters"], kinds["again"]["state_bytes"]) == (0, 0)
    assert "splittable" not in kinds["head"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tensor_parallel": 8}, 'the heads of layer kind "layer" cannot be cut evenly'),
        ({"expert_parallel": 8, "data_parallel": 8}, 'the experts of layer kind "layer" cannot be cut evenly'),
        ({"expert_parallel": 2, "data_parallel": 3}, "experts are spread over the data-parallel replicas"),
        ({"context_parallel": 3}, "the sequence cannot be cut evenly"),
    ],
)
def test_what_cannot_be_cut_is_an_error(more: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        profile(Setting(128, 2, **more))  # type: ignore[arg-type]
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("block", "degree", "what"),
    [
        (Attention(64, 12, 3, 16), 2, "heads of keys and values"),
        (Attention(64, 12, 3, 16), 6, None),  # each head of keys and values on two devices
        (GatedDeltaNet(64, 2, 4, 16, 16, 4), 4, "key heads"),
        (GatedDeltaNet(64, 2, 4, 16, 16, 4), 2, None),
    ],
)
def test_heads_of_keys_and_of_delta_nets_are_cut_evenly_too(block: Block, degree: int, what: str | None) -> None:
    layers = (
        Layer("embedding", (Embedding(96, 64),), "embedding"),
        Layer("layer", (block,)),
        Layer("head", (Head(96, 64),), "head"),
    )
    architecture = Architecture("cut", "made up", 64, 96, "layer", layers)
    if what is None:
        profile(Setting(96, 2, tensor_parallel=degree), architecture)
        return
    with pytest.raises(InputError, match=f"the {what} of layer kind"):
        profile(Setting(96, 2, tensor_parallel=degree), architecture)


def test_experts_are_not_spread_where_there_are_none() -> None:
    dense = (
        Layer("embedding", (Embedding(96, 64),), "embedding"),
        Layer("layer", (Mlp(64, 96),)),
        Layer("head", (Head(96, 64),), "head"),
    )
    with pytest.raises(InputError, match="no experts to spread"):
        profile(
            Setting(96, 2, expert_parallel=2, data_parallel=2), Architecture("d", "made up", 64, 96, "layer", dense)
        )


def test_a_hardware_without_fp8_is_an_error() -> None:
    with pytest.raises(InputError, match="a100-80gb has no peak rate for fp8"):
        estimate(model(), load_hardware("a100-80gb"), Setting(128, 2, dtype="fp8"), {})


@pytest.mark.parametrize("config", CONFIGS or [None], ids=lambda path: path.stem if path else "none")
def test_every_config_is_estimated_and_its_products_are_its_weights(config: Path | None) -> None:
    """2 FLOPs for each position and active weight, for W: only vectors, convolutions and states are not in products."""
    if config is None:
        pytest.skip("the shared configs are not here")
    architecture = architecture_of(load_config(str(config)), "sublayer")
    document = estimate(architecture, load_hardware("h100-sxm"), Setting(4096, 1), {})
    for name, layer in architecture.kinds.items():
        work = document["provenance"]["kinds"][name]
        times = document["kinds"][name]["times"]["h100-sxm"]
        assert times["forward_ms"] > 0
        if layer.role == "decoder" and layer.active_parameters:
            assert work["flops"]["weight"] / (2 * 4096) == pytest.approx(layer.active_parameters, rel=0.03)
            bits = work["flops"]["forward"] / 1e12 / (times["forward_ms"] / 1e3)
            assert bits < 989.4  # never above the peak
