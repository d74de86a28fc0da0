from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.profile import model_work, profile_from_document
from octopipe_cli.profiling.blocks import Attention
from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.configs.vision import frozen, with_images
from octopipe_cli.profiling.estimate import LEFT, estimate, setting_provenance
from octopipe_cli.profiling.image_blocks import PatchEmbedding, Regroup
from octopipe_cli.profiling.image_lowering import image_block
from octopipe_cli.profiling.kernels import attention_core
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.operations import flops_of
from octopipe_cli.profiling.setting import Setting
from tests.profiling.hardware_examples import round_hardware

ROUND = round_hardware()


def gemma(*parts: Any, images: int = 1, **setting: Any) -> dict[str, Any]:
    read = load_config("gemma-3-27b")
    found = with_images(read, architecture_of(read), "layer")
    assert found is not None
    asked = Setting(4096, 1, images=images, **setting)
    return estimate(frozen(found[0], parts), ROUND, asked, setting_provenance(ROUND, asked))


def test_costs_are_those_of_the_images() -> None:
    one, four = gemma()["kinds"], gemma(images=4)["kinds"]
    assert [name for name, kind in one.items() if kind.get("modality") == "vision"] == [
        "vision_embedding",
        "vision_attention_mlp",
        "vision_attention_mlp_2",
        "projector",
    ]
    block = "vision_attention_mlp"
    for size in ("activation_bytes", "weight_activation_bytes", "output_bytes"):
        assert four[block][size] == 4 * one[block][size]
    assert four[block]["state_bytes"] == one[block]["state_bytes"] == 18 * 15_239_504
    assert one[block]["output_bytes"] == 2 * 4096 * 1152
    assert one["projector"]["output_bytes"] == 2 * 256 * 5376
    assert four["head"] == one["head"]


def test_every_patch_sees_all_patches() -> None:
    def flops(**more: Any) -> int:
        return flops_of(attention_core(Setting(64, 1), 2, 2, 8, 8, **more).forward)

    assert flops(causal=False) == 2 * flops()  # a query sees half of the others on average where it is causal
    assert flops(causal=False, chunk=16) == flops(causal=False) // 4
    assert flops(causal=False, chunk=256) == flops(causal=False)


def test_forward_flops_of_a_block() -> None:
    work = gemma()["provenance"]["kinds"]["vision_attention_mlp"]["flops"]
    # 15 239 504 weights, all but biases, norms in products: 4 x 1152^2 + 2 x 1152 x 4304; attention of 16 heads of 72
    products = 2 * 4096 * (4 * 1152**2 + 2 * 1152 * 4304)
    core = 4 * 4096**2 * 16 * 72
    assert work["forward"] == products + core
    assert work["weight"] == products
    assert work["input"] == products + core * 5 // 2


def test_pixels_need_no_gradient() -> None:
    operation = image_block(PatchEmbedding(588, 64), Setting(16, 2))
    assert operation.input == ()
    assert flops_of(operation.forward) == flops_of(operation.weight) == 2 * 32 * 588 * 64


def test_patches_averaged_are_read_all_and_written_once() -> None:
    setting = Setting(16, 1)
    (work,) = image_block(Regroup(64, 4, average=True), setting).forward
    assert work.bytes == (4 + 1) * 2 * 16 * 64  # type: ignore[union-attr]


def test_a_frozen_encoder_keeps_nothing_and_is_not_stepped() -> None:
    trained, document = gemma(data_parallel=4), gemma("vision", data_parallel=4)
    kind, before = (made["kinds"]["vision_attention_mlp"] for made in (document, trained))
    times, times_before = kind["times"]["round"], before["times"]["round"]
    assert times["forward_ms"] == times_before["forward_ms"] > 0
    assert (times["backward_input_ms"], times["backward_weight_ms"], times["step_ms"]) == (0, 0, 0)
    assert (kind["activation_bytes"], kind["weight_activation_bytes"]) == (0, 0)
    assert (kind["parameters"], kind["state_bytes"]) == (15_239_504, 2 * 15_239_504)
    assert document["provenance"]["kinds"]["vision_attention_mlp"]["backward"] == LEFT["none"]
    assert "backward" not in trained["provenance"]["kinds"]["vision_attention_mlp"]
    assert document["kinds"]["attention_mlp"] == trained["kinds"]["attention_mlp"]


def test_a_projector_behind_a_frozen_encoder_has_w_and_no_i() -> None:
    trained, document = gemma(), gemma("vision")
    times, before = (made["kinds"]["projector"]["times"]["round"] for made in (document, trained))
    assert times["backward_input_ms"] == 0
    assert before["backward_weight_ms"] < times["backward_weight_ms"]  # the way to the norm's and projection's weights
    assert times["backward_weight_ms"] <= before["backward_weight_ms"] + before["backward_input_ms"]
    assert document["kinds"]["projector"]["state_bytes"] == trained["kinds"]["projector"]["state_bytes"]
    assert document["kinds"]["projector"]["activation_bytes"] > 0
    assert document["provenance"]["kinds"]["projector"]["backward"] == LEFT["weight"]


def test_a_frozen_projector_behind_a_trained_encoder_has_i_and_no_w() -> None:
    times = gemma("projector")["kinds"]["projector"]["times"]["round"]
    assert (times["backward_input_ms"] > 0, times["backward_weight_ms"]) == (True, 0)


def test_zero_3_cuts_frozen_weights_too() -> None:
    state = gemma("vision", data_parallel=4, zero=3)["kinds"]["vision_attention_mlp"]["state_bytes"]
    assert state == pytest.approx(2 * 15_239_504 / 4, abs=4)  # a byte a block rounded up


@pytest.mark.parametrize("context", [1, 2])
def test_model_flops_are_those_of_the_passes_there_are(context: int) -> None:
    """Devices that share the text each run all images; frozen layers count their forward alone."""

    def flops(*parts: Any) -> tuple[int, int]:
        document = gemma(*parts, context_parallel=context)
        found = model_work(profile_from_document(document, "gemma"))
        assert found is not None
        seeing = sum(
            document["provenance"]["kinds"][name]["flops"]["forward"] * count
            for name, count in (("vision_embedding", 1), ("vision_attention_mlp", 26), ("vision_attention_mlp_2", 1))
        )
        return found.flops, seeing

    (all_of_it, seeing), (less, _) = flops(), flops("vision")
    projector = gemma(context_parallel=context)["provenance"]["kinds"]["projector"]["flops"]["forward"]
    assert all_of_it - less == 2 * seeing + projector


def test_an_images_positions_may_not_be_cut_evenly() -> None:
    read = load_config("qwen2.5-vl-7b")
    found = with_images(read, architecture_of(read), "layer")
    assert found is not None
    assert Setting(4096, 1, tensor_parallel=2).of_images(577).sequence_parallel is False
    assert Setting(4096, 1, tensor_parallel=2).of_images(1024).sequence_parallel is True
    layer = next(layer for layer in found[0].layers if layer.kind == "vision_window_attention_mlp")
    names = [operation.name for operation in lower(layer, Setting(4096, 1).of_images(4096), 1280)]
    assert names == [
        "norm",
        "qkv",
        "rotary",
        "core",
        "output",
        "residual",
        "norm",
        "up",
        "activation",
        "down",
        "residual",
    ]
    assert isinstance(layer.blocks[1], Attention)


def test_the_quadratic_share_is_that_of_attention_to_all_positions() -> None:
    kinds = gemma()["kinds"]
    width, products = 32 * 128, 5376 * (2 * 32 + 2 * 16) * 128 + 3 * 5376 * 21504
    core = 7 / 2 * 4096 * 4096 / 2 * 4 * width  # 2 products forward, 5 backward, half of all pairs
    share = core / (core + 3 * 2 * 4096 * products)
    assert kinds["attention_mlp"]["quadratic_share"] == pytest.approx(share, abs=1e-4)
    assert {name for name, kind in kinds.items() if "quadratic_share" in kind} == {"attention_mlp"}
