"""Layers run with torch and transformers; the whole file is skipped where they are not installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.measure import Measurement, Request, check_device, measure
from octopipe_cli.profiling.measure_passes import Measured, spread_of
from octopipe_cli.profiling.memory import activation_bytes, weight_activation_bytes
from octopipe_cli.profiling.setting import Setting
from tests.profiling import tiny_configs
from tests.profiling.configs.small import SMALL

WHY = "measuring needs the extra octopipe[torch]"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)
pytestmark = pytest.mark.filterwarnings("default")  # other packages' own
LENGTH, BATCH = 16, 2


def measured(folder: Path, config: dict[str, Any], **request: Any) -> Measurement:
    file = folder / "tiny.json"
    file.write_text(json.dumps(config))
    found = load_config(str(file))
    check_device("cpu")
    asked = Request(LENGTH, BATCH, **{"dtype": "fp32", "repeats": 1, **request})
    return measure(found.document, architecture_of(found), asked, "here", {"source": "tiny.json"})


def profile_of(result: Measurement) -> Profile:
    return profile_from_document(result.document, "measured")


def estimated(folder: Path, config: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return what the cost model says is kept for I and for W by kind, in bf16."""
    file = folder / "tiny.json"
    file.write_text(json.dumps(config))
    architecture = architecture_of(load_config(str(file)))
    setting = Setting(LENGTH, BATCH)
    operations = {name: lower(layer, setting, architecture.hidden) for name, layer in architecture.kinds.items()}
    return {name: (activation_bytes(each), weight_activation_bytes(each)) for name, each in operations.items()}


def _family(value: Any) -> str:
    return str(value["model_type"]) if isinstance(value, dict) else ""


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (tiny_configs.LLAMA, ["embedding", "attention_mlp", "head"]),
        (tiny_configs.MIXTRAL, ["embedding", "attention_moe", "head"]),
        (tiny_configs.GEMMA, ["embedding", "attention_mlp", "head"]),
        (tiny_configs.BAMBA, ["embedding", "mamba_mlp", "attention_mlp", "head"]),
        (tiny_configs.JAMBA, ["embedding", "mamba_mlp", "mamba_moe", "attention_mlp", "head"]),
        (tiny_configs.FALCON_H1, ["embedding", "attention_mamba_mlp", "head"]),
        (tiny_configs.LLAMA4, ["embedding", "chunked_attention_moe", "head"]),
    ],
    ids=_family,
)
def test_every_kind_is_measured_once(tmp_path: Path, config: dict[str, Any], kinds: list[str]) -> None:
    result = measured(tmp_path, config)
    profile = profile_of(result)
    assert list(profile.kinds) == list(result.kinds) == kinds
    assert profile.num_layers == config["num_hidden_layers"] + 2
    assert profile.hardware == ("here",)
    assert not any("parameters" in warning for warning in result.warnings)
    hidden = 4 * LENGTH * BATCH * config["hidden_size"]
    for name, kind in profile.kinds.items():
        times = kind.times["here"]
        assert times.forward_ms > 0
        assert kind.splittable
        assert kind.state_bytes == 16 * kind.parameters
        assert kind.output_bytes == (0 if name == "head" else hidden)
        if name == "embedding":
            assert (times.backward_input_ms, times.backward_ms) == (0, None)
            assert (kind.activation_bytes, kind.weight_activation_bytes) == (
                8 * LENGTH * BATCH,
                8 * LENGTH * BATCH + hidden,
            )
        else:
            assert min(times.backward_input_ms, times.backward_weight_ms, times.backward_ms or 0) > 0
            assert kind.activation_bytes > hidden
            assert kind.workspace_bytes > 0
    scans = [warning for warning in result.warnings if "plain PyTorch" in warning]
    assert [warning.partition(":")[0] for warning in scans] == [kind for kind in kinds if "mamba" in kind]
    told = profile.provenance
    assert (told["method"], told["device"], told["torch"]) == ("measured", "cpu", torch.__version__)


@pytest.mark.parametrize("config", [tiny_configs.LLAMA, tiny_configs.GEMMA, tiny_configs.MIXTRAL], ids=_family)
def test_bytes_kept_are_those_of_the_cost_model(tmp_path: Path, config: dict[str, Any]) -> None:
    wanted = estimated(tmp_path, config)
    for name, kind in profile_of(measured(tmp_path, config, dtype="bf16")).kinds.items():
        assert kind.activation_bytes == pytest.approx(wanted[name][0], rel=0.02), name
        assert kind.weight_activation_bytes == pytest.approx(wanted[name][1], rel=0.02), name


@pytest.mark.parametrize("cap", [20.0, None])
def test_a_soft_capped_head_keeps_one_more_tensor_of_logits(tmp_path: Path, cap: float | None) -> None:
    config = {**tiny_configs.GEMMA2, "final_logit_softcapping": cap}
    head = profile_of(measured(tmp_path, config, dtype="bf16")).kinds["head"]
    kept, for_weights = estimated(tmp_path, config)["head"]
    assert head.activation_bytes == pytest.approx(kept, rel=0.05)
    assert head.weight_activation_bytes == pytest.approx(for_weights, rel=0.05)


def test_a_llama_layer_keeps_what_one_can_count(tmp_path: Path) -> None:
    kind = profile_of(measured(tmp_path, tiny_configs.LLAMA)).kinds["attention_mlp"]
    tokens, hidden, wide, heads = LENGTH * BATCH, 64, 176, 4
    # both norms' input and output, q and the core's output, k and v of half the heads, gate, up and their product
    elements = tokens * (4 * hidden + 2 * hidden + 2 * hidden // 2 + 3 * wide)
    rows = tokens * (heads + 2)  # a number a row of the core's softmax, one a row of each norm
    assert kind.activation_bytes == 4 * (elements + rows)
    # and for W the gradients of what has weights: norms, q, k, v, output, gate, up, down
    assert kind.weight_activation_bytes - kind.activation_bytes == 4 * tokens * (
        2 * hidden + 2 * hidden + 2 * hidden + 2 * wide
    )


def test_eager_kernels_keep_more_and_compute_the_same(tmp_path: Path) -> None:
    fused, eager = (
        profile_of(measured(tmp_path, tiny_configs.LLAMA, kernels=kernels)) for kernels in ("fused", "eager")
    )
    tokens, hidden, wide = LENGTH * BATCH, 64, 176
    more = eager.kinds["attention_mlp"].activation_bytes - fused.kinds["attention_mlp"].activation_bytes
    assert more == 4 * tokens * (2 * hidden + wide)  # both norms' normalised copies, silu(gate)


@pytest.mark.parametrize("name", ["LLAMA", "GEMMA", "MIXTRAL"])
def test_fused_kernels_give_the_results_and_gradients_of_eager_ones(tmp_path: Path, name: str) -> None:
    from octopipe_cli.profiling.measure_kernels import fuse
    from octopipe_cli.profiling.measure_model import pieces_of

    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(getattr(tiny_configs, name)))
    config = load_config(str(file))
    pieces = pieces_of(
        config.document, architecture_of(config), device="cpu", dtype="fp32", batch=1, length=16, fused=False
    )
    for piece in pieces:
        if piece.role != "decoder":
            continue
        norms = [part for part in piece.module.modules() if type(part).__name__.endswith("RMSNorm")]
        for norm in norms:
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        weights = [norm.weight.detach().clone() for norm in norms]
        hidden = piece.make_input()
        wanted = piece.run(hidden)
        gradient = torch.randn_like(wanted)
        before = torch.autograd.grad(wanted, [hidden, *piece.parameters], gradient)
        changed = fuse(piece.module)
        assert len(changed) == len(norms) + 1
        with torch.no_grad():
            for norm, weight in zip(norms, weights, strict=True):  # finding the norm's form draws new ones
                norm.weight.copy_(weight)
        found = piece.run(hidden)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        after = torch.autograd.grad(found, [hidden, *piece.parameters], gradient)
        for one, other in zip(after, before, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_depths_that_transformers_does_not_build_are_left_out(tmp_path: Path) -> None:
    result = measured(tmp_path, tiny_configs.DEEPSEEK)
    assert "transformers has no multi-token prediction: the profile has no MTP depths" in result.warnings
    profile = profile_of(result)
    assert list(profile.kinds) == ["embedding", "attention_mlp", "attention_moe", "head"]
    assert profile.num_layers == 5
    assert profile.rules.tied == []


def test_shared_blocks_are_not_split(tmp_path: Path) -> None:
    result = measured(tmp_path, tiny_configs.ZAMBA2)
    assert all(found.splittable for found in result.kinds.values())  # one layer alone could be
    kinds = profile_of(result).kinds
    shared = "shared_attention_mlp_mamba"
    names = ["embedding", "mamba", shared, f"{shared}_2", "head"]
    assert {name: kind.splittable for name, kind in kinds.items()} == {name: shared not in name for name in names}
    # the embeddings travel with the hidden states
    assert kinds["mamba"].output_bytes == 2 * 4 * LENGTH * BATCH * 64
    assert not any("parameters" in warning for warning in result.warnings)


def test_the_tie_told_around_a_text_config_counts(tmp_path: Path) -> None:
    text = {key: value for key, value in tiny_configs.GEMMA.items() if key != "tie_word_embeddings"}
    result = measured(tmp_path, {"model_type": "some_vl", "tie_word_embeddings": False, "text_config": text})
    assert profile_of(result).kinds["head"].parameters == 64 + 320 * 64
    assert not any("parameters" in warning for warning in result.warnings)


def test_a_model_whose_class_cannot_draw_one_layers_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot draw weights for one layer"):
        measured(tmp_path, SMALL["gemma3n"])


def test_tied_layers_stay_tied(tmp_path: Path) -> None:
    profile = profile_of(measured(tmp_path, tiny_configs.GEMMA))
    assert profile.rules.tied == [[0, 3]]
    assert profile.kinds["embedding"].parameters == 320 * 64
    assert profile.kinds["head"].parameters == 64


def hand_made(run: Any, module: Any) -> Measured:
    from octopipe_cli.profiling.measure_model import Piece
    from octopipe_cli.profiling.measure_passes import measure_piece

    return measure_piece(
        Piece("by hand", "decoder", module, run, lambda: torch.randn(2, 4, 8).requires_grad_()), "cpu", 2
    )


def test_a_layer_that_ends_in_a_view_is_not_split() -> None:
    linear = torch.nn.Linear(8, 8)
    found = hand_made(linear, linear)
    assert (found.splittable, "views" in found.why) == (False, True)
    assert {name: len(values) for name, values in found.milliseconds.items()} == {"F": 4, "B": 2, "I": 2, "W": 2}
    residual = hand_made(lambda hidden: hidden + linear(hidden), linear)
    assert (residual.splittable, residual.why) == (True, "")


def test_a_split_that_gives_other_gradients_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.pipelining import _backward

    right = _backward.stage_backward_weight

    def twice(weights: Any, groups: Any) -> Any:
        weights = list(weights)
        result = right(iter(weights), groups)
        for weight in weights:
            weight.grad *= 2
        return result

    monkeypatch.setattr(_backward, "stage_backward_weight", twice)
    linear = torch.nn.Linear(8, 8)
    found = hand_made(lambda hidden: hidden + linear(hidden), linear)
    assert (found.splittable, found.why) == (False, "it gives other gradients")


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "no such kind of device"), ("cuda:x", "no such kind of device"), ("cuda:99", "sees no device cuda:99")],
)
def test_devices_that_are_not_there_are_refused(device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_device(device)


def test_a_family_that_transformers_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr(transformers, "CONFIG_MAPPING", {})
    with pytest.raises(InputError, match='has no model of the type "llama"'):
        measured(tmp_path, tiny_configs.LLAMA)


def test_spreads_are_told_where_they_are_wide() -> None:
    from octopipe_cli.profiling.architecture import Architecture, Layer
    from octopipe_cli.profiling.measure import _warnings

    steady, wide = [1.0] * 8, [1.0, 1.0, 1.0, 1.1, 1.3, 1.5, 1.6, 1.7]
    assert spread_of(steady) == 0
    assert spread_of(wide) == pytest.approx((1.525 - 1.0) / 1.2)
    found = Measured({"F": steady, "B": wide}, True, "", 0, 0, 0, 0, parameters=0)
    layer = Layer("mlp", ())
    model = Architecture("m", "llama", 1, 1, "layer", (layer,))
    asked = Request(1, 1)
    assert _warnings(layer, found, model, asked) == [
        "mlp: the times spread widely (B by 44%): measure again with nothing beside it"
    ]
