from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.profiling.architecture import Architecture
from octopipe_cli.profiling.blocks import Attention
from octopipe_cli.profiling.configs.families import Config, architecture_of, load_config
from octopipe_cli.profiling.configs.vision import READERS, Tower, frozen, with_images
from tests.profiling.configs.small import BASE, config

QWEN = {"num_heads": 16, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
DEEP = {**QWEN, "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16}
VIT = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16, "patch_size": 14}
CLIP = {"model_type": "clip_vision_model", **VIT, "image_size": 336, "patch_size": 14}
PIXTRAL = {"model_type": "pixtral", "image_size": 1024, "patch_size": 16}


def whole(model_type: str, hidden: int, vision: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a config with a text of that width, a tower of released size and what belongs to both."""
    text = config("llama", {**BASE, "hidden_size": hidden, "head_dim": 16})
    return {"model_type": model_type, "text_config": text, "vision_config": vision, **more}


#: Released encoders, by text width: weights of encoder and projector as counted on models of these sizes in
#: transformers 5.24 on the meta device. CLIP's last block and norm, which LLaVA does not use, are taken off:
#: 12 596 224 and 2 048 weights of 324 487 168.
RELEASED: dict[str, tuple[dict[str, Any], int]] = {
    "gemma-3-27b": (
        whole("gemma3", 5376, {**SIGLIP, "num_hidden_layers": 27, "image_size": 896}),
        416_866_032 + 6_194_304,
    ),
    "paligemma-3b": (
        whole("paligemma", 2048, {**SIGLIP, "num_hidden_layers": 27, "image_size": 224}),
        412_442_352 + 2_361_344,
    ),
    "llama-4-scout": (
        whole(
            "llama4", 5120, {**VIT, "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34}
        ),  # its images are 336 wide
        871_932_416,
    ),
    "qwen2-vl-7b": (whole("qwen2_vl", 3584, {**QWEN, "depth": 32, "embed_dim": 1280, "mlp_ratio": 4}), 675_759_104),
    "qwen2.5-vl-7b": (
        whole("qwen2_5_vl", 3584, {**QWEN, "depth": 32, "hidden_size": 1280, "intermediate_size": 3420}),
        676_550_144,
    ),
    "qwen3-vl-8b": (whole("qwen3_vl", 4096, {**DEEP, "deepstack_visual_indexes": [8, 16, 24]}), 576_388_336),
    "qwen3-vl-30b-a3b": (whole("qwen3_vl_moe", 2048, DEEP), 538_631_408),
    "qwen3.5-27b": (whole("qwen3_5", 5120, {**DEEP, "deepstack_visual_indexes": []}), 460_730_096),
    "pixtral-12b": (
        whole("llava", 5120, PIXTRAL, vision_feature_layer=-1, vision_feature_select_strategy="full"),
        403_489_792 + 31_467_520,
    ),
    "mistral-small-3.1": (
        whole("mistral3", 5120, {**PIXTRAL, "image_size": 1540, "patch_size": 14}, tie_word_embeddings=False),
        403_305_472 + 35_652_608,
    ),
    "llava-1.5-7b": (whole("llava", 4096, CLIP), 324_487_168 - 12_596_224 - 2_048),
    "llava-1.6": (whole("llava_next", 4096, CLIP, vision_feature_layer=-1), 324_491_264 - 2_048),
    "llava-onevision-7b": (
        whole(
            "llava_onevision",
            3584,
            {"model_type": "siglip_vision_model", **SIGLIP, "num_hidden_layers": 26, "image_size": 384},
        ),
        414_732_320,
    ),
    "internvl3-8b": (
        whole("internvl", 3584, {**VIT, "attention_bias": True, "image_size": [448, 448], "patch_size": [14, 14]}),
        331_552_768,
    ),
    "internvl3-38b": (
        whole(
            "internvl_chat",
            3584,
            {
                **VIT,
                "hidden_size": 3200,
                "intermediate_size": 12800,
                "num_hidden_layers": 45,
                "num_attention_heads": 25,
                "qkv_bias": False,
                "qk_normalization": True,
                "norm_type": "rms_norm",
            },
        ),
        5_595_249_024,
    ),
}
RELEASED["llama-4-scout"][0]["vision_config"]["image_size"] = 336


def seen(document: dict[str, Any], granularity: Any = "layer", image_size: int | None = None) -> Architecture:
    return both(document, granularity, image_size)[0]


def both(document: dict[str, Any], granularity: Any = "layer", size: int | None = None) -> tuple[Architecture, Tower]:
    read = Config(document, "config.json", "model", "")
    found = with_images(read, architecture_of(read, granularity), granularity, size)
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_encoders_have_the_weights_of_released_models(name: str) -> None:
    document, counted = RELEASED[name]
    text = architecture_of(Config(document, "config.json", "model", ""))
    for granularity in ("layer", "sublayer"):
        architecture = seen(document, granularity)
        assert architecture.vision_parameters == counted
        assert architecture.parameters == text.parameters
        first = [layer.images is None for layer in architecture.layers].index(True)
        assert architecture.layers[first].role == "embedding"
        assert architecture.layers[first - 1].kind == "projector"
        for layer in architecture.layers:
            assert architecture.kinds[layer.kind] == layer


def test_every_reader_has_a_released_model() -> None:
    assert {document["model_type"] for document, _ in RELEASED.values()} | {"qwen3_5_moe"} == set(READERS)


@pytest.mark.parametrize(
    ("name", "side", "positions", "tokens"),
    [
        ("gemma-3-27b", 64, 4096, 256),
        ("llama-4-scout", 24, 577, 144),  # a class token beside the patches
        ("qwen2.5-vl-7b", 64, 4096, 1024),
        ("pixtral-12b", 64, 4096, 4096),
        ("llava-1.5-7b", 24, 577, 576),
        ("internvl3-8b", 32, 1025, 256),
        ("mistral-small-3.1", 110, 12100, 3025),
    ],
)
def test_positions_of_an_image(name: str, side: int, positions: int, tokens: int) -> None:
    architecture, tower = both(RELEASED[name][0])
    assert (tower.encoder.side, tower.encoder.positions, tower.tokens) == (side, positions, tokens)
    images = [layer.images for layer in architecture.layers if layer.images is not None]
    assert (images[0].positions, images[-1].positions) == (positions, tokens)
    assert images[-1].passed == tokens * architecture.hidden


def test_images_of_another_size() -> None:
    assert both(RELEASED["qwen2.5-vl-7b"][0], size=448)[1].encoder.positions == 1024
    assert both(RELEASED["qwen2.5-vl-7b"][0], size=450)[1].encoder.positions == 1024  # whole patches
    with pytest.raises(InputError, match="takes images of one size"):
        both(RELEASED["gemma-3-27b"][0], size=448)


def test_qwen25_attends_within_windows_but_for_some_blocks() -> None:
    layers = [layer for layer in seen(RELEASED["qwen2.5-vl-7b"][0]).layers if layer.images is not None][1:-1]
    chunks = [block.chunk for layer in layers for block in layer.blocks if isinstance(block, Attention)]
    # 112 pixels are 8 patches of 14
    assert [index for index, chunk in enumerate(chunks) if chunk is None] == [7, 15, 23, 31]
    assert set(chunks) == {None, 64}


def test_tied_layers_are_counted_behind_the_encoder() -> None:
    read = load_config("gemma-3-27b")
    found = with_images(read, architecture_of(read), "layer")
    assert found is not None
    architecture = found[0]
    ((first, last),) = architecture.tied
    assert (architecture.layers[first].role, architecture.layers[last].role) == ("embedding", "head")
    assert (architecture.parameters, architecture.vision_parameters) == (27_009_002_240, 423_060_336)


def backward(document: dict[str, Any], *parts: Any) -> list[str]:
    found = []
    for layer in frozen(seen(document), parts).layers:
        if layer.images is not None and (not found or found[-1] != f"{layer.kind} {layer.backward}"):
            found.append(f"{layer.kind} {layer.backward}")
        assert layer.images is not None or layer.backward == "full"
    return found


def test_what_is_left_of_the_backward_where_parts_are_frozen() -> None:
    gemma = RELEASED["gemma-3-27b"][0]
    tower = ["vision_embedding", "vision_attention_mlp", "vision_attention_mlp_2"]
    assert backward(gemma) == [f"{kind} full" for kind in (*tower, "projector")]
    assert backward(gemma, "vision") == [*(f"{kind} none" for kind in tower), "projector weight"]
    assert backward(gemma, "vision", "projector") == [f"{kind} none" for kind in (*tower, "projector")]
    trained = ["vision_embedding weight", *(f"{kind} full" for kind in tower[1:])]
    assert backward(gemma, "projector") == [*trained, "projector input"]
    # what goes past the encoder's later blocks makes them need no gradient
    deep = backward(RELEASED["qwen3-vl-8b"][0], "vision")
    assert {line.rpartition(" ")[2] for line in deep if "attention" in line} == {"none"}
    assert [line for line in deep if "attention" not in line] == [
        "vision_embedding none",
        "vision_deepstack weight",
        "vision_deepstack_2 weight",
        "vision_deepstack_3 weight",
        "projector weight",
    ]


@pytest.mark.parametrize(
    ("name", "change", "path", "message"),
    [
        ("gemma-3-27b", {"mm_tokens_per_image": 7}, "$.mm_tokens_per_image", "averaged"),
        ("gemma-3-27b", {"vision_config": {**SIGLIP, "num_attention_heads": 7}}, "$.vision_config", "the heads don't"),
        ("gemma-3-27b", {"vision_config": {**SIGLIP, "patch_size": 999}}, "$.vision_config", "smaller than its patch"),
        ("gemma-3-27b", {"vision_config": {"num_hidden_layers": 10**9}}, "$.vision_config", "not a whole number"),
        ("gemma-3-27b", {"vision_config": 3}, "$.vision_config", "not an object"),
        ("llava-1.5-7b", {"vision_feature_layer": [-2, -1]}, "$.vision_feature_layer", "not a layer of the encoder"),
        ("llava-1.5-7b", {"vision_config": {"model_type": "vit"}}, "$.vision_config.model_type", "is not known"),
        ("internvl3-8b", {"downsample_ratio": 0.3}, "$.downsample_ratio", "merged evenly"),
        ("gemma-3-27b", {"model_type": "idefics3"}, "$.vision_config", "is not known"),
        ("gemma-3-27b", {"model_type": "mllama"}, "$.model_type", "cross attention"),
    ],
)
def test_what_is_wrong_is_named(name: str, change: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        seen({**RELEASED[name][0], **change})
    assert error.value.file == "config.json"
    assert str(error.value.path).startswith(path)
    assert message in error.value.message


STRANGE: list[Any] = [None, -1, 0, 3, "x", [], [1], {}, True, 1.5, 10**12]


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_a_strange_value_is_an_input_error_or_a_model(name: str) -> None:
    document = RELEASED[name][0]
    changes = [{key: value} for key in document if key != "text_config" for value in STRANGE]
    vision = document["vision_config"]
    changes += [{"vision_config": {**vision, key: value}} for key in vision for value in STRANGE]
    for change in changes:
        assert acceptable({**document, **change})


def acceptable(document: dict[str, Any]) -> bool:
    """Return whether a config gives a model, or an error that says where."""
    read = Config(document, "config.json", "model", "")
    try:
        found = with_images(read, architecture_of(read), "layer")
    except InputError as error:
        return error.file == "config.json" and str(error.path).startswith("$")
    return found is None or found[0].vision_parameters > 0
