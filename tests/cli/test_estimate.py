from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.profile import load_profile
from tests.cli.conftest import Octopipe
from tests.profiling.hardware_examples import round_document

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}
ROOT = Path(__file__).parents[2]
COMMON = ("--sequence-length", "128", "--micro-batch-size", "2")


@pytest.fixture
def config(folder: Path) -> str:
    (folder / "tiny.json").write_text(json.dumps(LLAMA))
    return "tiny.json"


def test_the_profile_is_the_payload_unless_a_file_is_named(folder: Path, octopipe: Octopipe, config: str) -> None:
    command = ("profile", "estimate", config, "--hardware", "h100-sxm", *COMMON)
    payload = octopipe(*command)
    assert (payload.code, payload.err) == (0, "")
    assert octopipe(*command, "-o", "out.json") == (0, "", "")
    assert (folder / "out.json").read_text() == payload.out
    read = load_profile(str(folder / "out.json")).value
    assert (read.name, read.num_layers, read.hardware, read.rules.tied) == ("tiny", 5, ("h100-sxm",), [[0, 4]])
    assert read.provenance["config_digest"].startswith("sha256:")


def test_options_change_what_they_should(folder: Path, octopipe: Octopipe, config: str) -> None:
    def kinds(*options: str) -> dict[str, Any]:
        result = octopipe("profile", "estimate", config, "--hardware", "h100-sxm", *COMMON, *options)
        assert (result.code, result.err) == (0, "")
        document: dict[str, Any] = json.loads(result.out)
        return document["kinds"]

    plain = kinds()
    layer = next(name for name in plain if name not in ("embedding", "head"))
    cut = kinds("--tensor-parallel", "2")
    assert cut[layer]["output_bytes"] * 2 == plain[layer]["output_bytes"]
    assert (
        kinds("--tensor-parallel", "2", "--no-sequence-parallel")[layer]["output_bytes"] == plain[layer]["output_bytes"]
    )
    weights = plain[layer]["parameters"]
    assert plain[layer]["state_bytes"] == 18 * weights
    assert kinds("--grad-dtype", "bf16")[layer]["state_bytes"] == 16 * weights
    assert kinds("--optimizer", "sgd")[layer]["state_bytes"] == 14 * weights
    assert kinds("--data-parallel", "4")[layer]["state_bytes"] == 9 * weights
    assert kinds("--data-parallel", "4", "--zero", "0")[layer]["state_bytes"] == 18 * weights
    assert kinds("--no-flash-attention")[layer]["activation_bytes"] > plain[layer]["activation_bytes"]
    assert kinds("--dtype", "fp8")[layer]["activation_bytes"] < plain[layer]["activation_bytes"]
    assert len(kinds("--granularity", "sublayer")) == 4


def test_a_hardware_file_of_ones_own_and_a_name(folder: Path, octopipe: Octopipe, config: str) -> None:
    (folder / "mine.json").write_text(json.dumps(round_document()))
    result = octopipe("profile", "estimate", config, "--hardware", "mine.json", *COMMON, "--name", "mine")
    assert (result.code, json.loads(result.out)["name"]) == (0, "mine")
    assert set(json.loads(result.out)["kinds"]["head"]["times"]) == {"round"}
    replaced = octopipe("profile", "estimate", config, "--hardware", "mine.json", *COMMON, "-o", "mine.json")
    assert (replaced.code, "the output would replace the hardware file" in replaced.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hardware", "h100"), 'did you mean "h100-sxm"?'),
        (("--hardware", "a100-80gb", "--dtype", "fp8"), "a100-80gb has no peak rate for fp8"),
        (("--hardware", "h100-sxm", "--tensor-parallel", "3", "--no-sequence-parallel"), "cannot be cut evenly"),
        (("--hardware", "h100-sxm", "--zero", "4"), "zero"),
    ],
)
def test_errors_are_exact(octopipe: Octopipe, config: str, options: tuple[str, ...], said: str) -> None:
    result = octopipe("profile", "estimate", config, *COMMON, *options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_show_tells_flops_and_bounds(folder: Path, octopipe: Octopipe, config: str) -> None:
    octopipe("profile", "estimate", config, "--hardware", "h100-sxm", *COMMON, "-o", "out.json")
    shown = json.loads(octopipe("profile", "show", "out.json", "--format", "json").out)
    assert shown["active_parameters"] == shown["parameters"]
    layer = next(name for name in shown["kinds"] if name not in ("embedding", "head"))
    weights = 64 * (64 + 2 * 32 + 64) + 3 * 64 * 96
    assert shown["kinds"][layer]["flops"]["weight"] == 3 * 2 * 256 * weights
    assert shown["totals"]["flops"]["weight"] == 3 * 2 * 256 * weights + 2 * 256 * 64 * 1000
    assert set(shown["kinds"][layer]["bound"]) == {"forward", "input", "weight"}
    text = octopipe("profile", "show", "out.json").out
    assert "work on one device, a layer and micro-batch" in text
    assert "active" in text
    assert "kinds:" not in text


def test_show_leaves_out_work_that_is_not_told_whole(folder: Path, octopipe: Octopipe, config: str) -> None:
    octopipe("profile", "estimate", config, "--hardware", "h100-sxm", *COMMON, "-o", "out.json")
    document = json.loads((folder / "out.json").read_text())
    for spoiled in ({}, {"head": {"active_parameters": 1, "flops": {}}}, "none", {"head": 3}):
        document["provenance"]["kinds"] = spoiled
        (folder / "spoiled.json").write_text(json.dumps(document))
        result = octopipe("profile", "show", "spoiled.json")
        assert (result.code, result.err, "work on one device" in result.out) == (0, "", False)
        assert "active_parameters" not in json.loads(
            octopipe("profile", "show", "spoiled.json", "--format", "json").out
        )


def test_vision_language_models(folder: Path, octopipe: Octopipe) -> None:
    command = ("profile", "estimate", "gemma-3-27b", "--hardware", "h100-sxm", *COMMON)

    def made(*options: str) -> dict[str, Any]:
        result = octopipe(*command, *options)
        assert (result.code, result.err) == (0, "")
        document: dict[str, Any] = json.loads(result.out)
        return document

    document = made("--images", "2", "--frozen", "vision", "-o", "-")
    assert document["provenance"]["vision"] == {
        "images_a_microbatch": 2,
        "image_size": 896,
        "positions_an_image": 4096,
        "tokens_an_image": 256,
        "frozen": ["vision"],
    }
    assert document["kinds"]["vision_attention_mlp"]["modality"] == "vision"
    (folder / "gemma.json").write_text(json.dumps(document))
    shown = json.loads(octopipe("profile", "show", "gemma.json", "--format", "json").out)
    assert (shown["parameters"], shown["vision_parameters"]) == (27_009_002_240, 423_060_336)
    assert "423.1 M more in vision encoder and projector" in octopipe("profile", "show", "gemma.json").out
    alone = made("--text-only")
    assert {kind.get("modality", "text") for kind in alone["kinds"].values()} == {"text"}
    assert alone["provenance"]["parts"] == "text only"


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("llama-3.1-8b", ("--images", "2"), "the config has no vision_config"),
        ("gemma-3-27b", ("--frozen", "vision", "--text-only"), "which --text-only leaves out"),
        ("gemma-3-27b", ("--image-size", "448"), "takes images of one size"),
        ("gemma-3-27b", ("--frozen", "text"), "'text' is not one of 'vision', 'projector'"),
    ],
)
def test_what_is_asked_of_no_encoder(octopipe: Octopipe, model: str, options: tuple[str, ...], said: str) -> None:
    result = octopipe("profile", "estimate", model, "--hardware", "h100-sxm", *COMMON, *options)
    assert (result.code, said in " ".join(result.err.split())) == (2, True)


def test_the_shipped_estimate_is_what_is_estimated_today(octopipe: Octopipe) -> None:
    shipped = ROOT / "profiles" / "models" / "gemma-3-27b.json"
    setting = ("--sequence-length", "4096", "--micro-batch-size", "1", "--tensor-parallel", "4")
    assert octopipe("profile", "estimate", "gemma-3-27b", "--hardware", "h100-sxm", *setting).out == shipped.read_text()
