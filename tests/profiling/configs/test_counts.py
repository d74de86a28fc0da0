from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from octopipe_cli.profiling.architecture import Architecture
from octopipe_cli.profiling.configs.families import READERS, SAME_AS, Config, architecture_of, load_config
from octopipe_cli.profiling.shipped import shipped_files
from tests.profiling.configs.small import BY_HAND, COUNTED, SMALL

REFERENCE = Path(__file__).parents[4] / "shared" / "reference"

#: Exact counts of reference configs: of models of them in transformers 5.24.
EXACT = {
    "codellama-34b": 33_744_232_448,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,
    "deepseek-v3.2": 671_877_944_064,
    "deepseek-v4-flash": 284_332_240_471,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-12b": 11_765_788_416,
    "glm-4.5": 352_797_829_024,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "jamba-v0.1": 51_570_323_328,
    "llama-3.1-405b": 405_853_388_800,
    "llama-4-maverick": 400_711_848_960,
    "llama-4-scout": 107_769_861_120,
    "mixtral-8x7b": 46_702_792_704,
    "nemotron-3-nano-30b-a3b": 31_577_940_288,
    "nemotron-3-super-120b-a12b": 120_668_707_840,
    "nemotron-h-47b": 46_791_554_816,
    "olmo3-32b": 32_233_522_176,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-coder-480b-a35b": 480_154_875_392,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "qwen3.5-27b": 26_895_998_464,
}

#: Published active parameters, in billions (reference/models_and_costs.md).
ACTIVE = {
    "qwen3-30b-a3b": "3.35",
    "qwen3-235b-a22b": "22.19",
    "qwen3-next-80b-a3b": "3.87",
    "mixtral-8x7b": "12.88",
    "deepseek-v2-lite": "2.66",
    "deepseek-v2": "21.38",
    "deepseek-v3": "37.55",
    "kimi-k2": "32.9",
    "glm-4.5": "33.6",
    "glm-4.5-air": "13.4",
    "gpt-oss-120b": "5.7",
    "nemotron-3-nano-30b-a3b": "3.58",
    "nemotron-3-super-120b-a12b": "12.77",
    "jamba-v0.1": "12.11",
}


def reference(name: str) -> Path:
    path = REFERENCE / "hf_configs" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no {path}: the reference data is not beside this checkout")
    return path


def within_digits(parameters: int, published: str) -> bool:
    """Return whether a count rounds, or is cut off, to the digits of a published figure in billions."""
    figure = Decimal(published)
    unit = Decimal(1).scaleb(figure.as_tuple().exponent)  # type: ignore[arg-type]
    return -unit * Decimal("0.51") <= Decimal(parameters) / 10**9 - figure < unit


def built(name: str, document: dict[str, object], granularity: str = "layer") -> Architecture:
    return architecture_of(Config(document, "config.json", name, ""), granularity)  # type: ignore[arg-type]


def published() -> dict[str, str]:
    path = REFERENCE / "parameters.json"
    return json.loads(path.read_text()) if path.is_file() else {}


@pytest.mark.skipif(not published(), reason="no ../shared/reference/parameters.json beside this checkout")
@pytest.mark.parametrize("name", sorted(published()))
def test_published_totals(name: str) -> None:
    # 72.70 for qwen2.5-72b is cut off, not rounded: the model has 72 706 203 648 weights
    assert within_digits(architecture_of(load_config(str(reference(name)))).parameters, published()[name])


@pytest.mark.parametrize("name", sorted(EXACT))
def test_exact_totals(name: str) -> None:
    for granularity in ("layer", "sublayer"):
        architecture = architecture_of(load_config(str(reference(name))), granularity)  # type: ignore[arg-type]
        assert architecture.parameters == EXACT[name]


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_published_active_parameters(name: str) -> None:
    architecture = architecture_of(load_config(str(reference(name))))
    assert within_digits(architecture.active_parameters, ACTIVE[name])


def test_every_reference_config_is_read() -> None:
    if not (REFERENCE / "hf_configs").is_dir():
        pytest.skip("no ../shared/reference/hf_configs beside this checkout")
    for path in sorted((REFERENCE / "hf_configs").glob("*.json")):
        architecture = architecture_of(load_config(str(path)))
        assert architecture.name == path.stem
        assert architecture.active_parameters <= architecture.parameters


@pytest.mark.parametrize("name", sorted(SMALL))
def test_small_models_have_the_weights_their_class_has(name: str) -> None:
    for granularity in ("layer", "sublayer"):
        assert built(name, SMALL[name], granularity).parameters == COUNTED[name]


def test_every_family_has_a_case() -> None:
    read = {built(name, document).family for name, document in {**SMALL, **BY_HAND}.items()}
    same = {"aquila", "code_llama", "internlm", "yi", "xverse", "minicpm", "exaone", "youtu_llm"}  # plain Llama or MLA
    same |= {"falcon_mamba", "codegen", "bailing_moe", "minimax_m1", "qwen2_vl_text", "qwen2_5_vl_text"}
    assert set(READERS) - read == same
    assert set(SAME_AS.values()) <= set(READERS)


# The counts by hand. Pieces: embedding 100 x 64; attention of 4 heads of 16, 2 of keys and values: Q and O 64 x 64, K
# and V 64 x 32; an MLP of 96: 3 x 64 x 96; experts of 32: 3 x 64 x 32; two norms a layer.
EMBEDDING = 100 * 64
HEAD = 64 + 100 * 64
ATTENTION = 2 * 64 * 64 + 2 * 64 * 32
MLP = 3 * 64 * 96
EXPERT = 3 * 64 * 32
NORMS = 2 * 64
LATENT = (64 * 40 + 40 + 40 * 4 * 20) + (64 * 32 + 24 + 24 * 4 * 22) + 4 * 10 * 64
KEY_DELTA = 3 * 32 * (64 + 4) + 8 * (64 + 32) + 64 * 4 + 4 + 32 + 8 + 32 * 64
HANDMADE = {
    # queries through 40, one key and value of 32, a norm of 40; experts, a shared one of 48
    "step3": EMBEDDING
    + HEAD
    + 4 * (64 * (40 + 2 * 32) + 40 * (1 + 4 * 32) + 4 * 32 * 64 + NORMS)
    + MLP
    + 3 * (6 * EXPERT + 6 * 64 + 3 * 64 * 48),
    # tied; four norms a layer
    "grok-1": EMBEDDING + 64 + 4 * (ATTENTION + 2 * NORMS + 6 * MLP + 6 * 64),
    # every second layer has neither keys nor values of its own; norms of 16 on queries and keys
    "hunyuan": EMBEDDING + HEAD + 4 * (ATTENTION + 32 + NORMS + 7 * MLP + 6 * 64) - 2 * 2 * 64 * 32,
    # the vocabulary padded to 104, tied; 8 heads of 16, one group of 128 states
    "mamba_ssm": 104 * 64 + 64 + 4 * (64 + 64 * (2 * 128 + 2 * 128 + 8) + (128 + 2 * 128) * 5 + 3 * 8 + 128 + 128 * 64),
    "deepseek": EMBEDDING + HEAD + 4 * (ATTENTION + NORMS) + MLP + 3 * (8 * EXPERT + 6 * 64),
    "kimi_k2": EMBEDDING + HEAD + 4 * (LATENT + NORMS) + MLP + 3 * (8 * EXPERT + 6 * 65),
    "mimo": EMBEDDING + HEAD + 4 * (ATTENTION + 64 + 2 * 32 + NORMS + MLP),
    "bailing_moe_v2": EMBEDDING + HEAD + 4 * (ATTENTION + 2 * 16 + NORMS) + MLP + 3 * (7 * EXPERT + 6 * 65),
    # two attentions, two MLPs, experts, four norms a layer; two of the router's eight rows have no weights behind them
    "longcat_flash": EMBEDDING + HEAD + 4 * (2 * LATENT + 2 * MLP + 2 * NORMS + 6 * EXPERT + 8 * 65),
    # odd layers: a dense MLP of the model's width and a norm of it beside the experts
    "arctic": EMBEDDING + HEAD + 4 * (ATTENTION + NORMS) + 2 * MLP + 2 * (6 * MLP + 6 * 64 + 64 + 3 * 64 * 64),
    "dbrx": EMBEDDING + HEAD + 4 * (ATTENTION + NORMS + 6 * EXPERT + 6 * 64),
    # lightning: Q, K, V, gate and output of 4 heads of 32, a norm over them
    "minimax_text_01": EMBEDDING
    + HEAD
    + 3 * (5 * 64 * 128 + 128)
    + (2 * 64 * 128 + 2 * 64 * 64)
    + 4 * (NORMS + 6 * MLP + 6 * 64),
    # MLPs of 2/3 x 1.5 x 64 and 2/3 x 6 x 64, rounded up to 256 each; one head of keys and values in the last layer
    "nemotron-nas": EMBEDDING
    + HEAD
    + (ATTENTION + NORMS + 3 * 64 * 256)
    + (64 + 3 * 64 * 256)
    + (64 + 64 * 64)
    + (2 * 64 * 64 + 2 * 64 * 16 + NORMS + 64 * 64),
    # tied; MLPs of 32 and 256; norms of 16 on queries and keys
    "openelm": EMBEDDING
    + 64
    + (ATTENTION + 32 + NORMS + 3 * 64 * 32)
    + (2 * 64 * 128 + 2 * 64 * 64 + 32 + NORMS + 3 * 64 * 256),
    "chatglm": EMBEDDING + HEAD + 4 * (ATTENTION + 64 + 2 * 32 + NORMS + MLP),
    "internlm2": EMBEDDING + HEAD + 4 * (ATTENTION + NORMS + MLP),
    "baichuan": EMBEDDING + HEAD + 4 * (4 * 64 * 64 + NORMS + MLP),
    "orion": EMBEDDING + HEAD + 64 + 4 * (ATTENTION + 2 * NORMS + MLP),
    "mistral in pixtral": EMBEDDING + HEAD + 4 * (2 * 64 * 128 + 2 * 64 * 64 + NORMS + MLP),
    # a norm and a logit before every branch and at the end; full-rank gates; experts on 20 of 64 elements, normed
    "kimi_k3": EMBEDDING
    + HEAD
    + 4 * (NORMS + 2 * 128)
    + 128
    + 2 * (KEY_DELTA + 64 * 32)
    + 2 * (64 * 80 + (64 * 32 + 24 + 24 * 4 * 22) + 2 * 4 * 10 * 64)
    + MLP
    + 3 * (6 * 3 * 20 * 32 + 6 * 65 + 20 * (2 * 64 + 1) + EXPERT),
}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_counts_by_hand(name: str) -> None:
    assert built(name, BY_HAND[name]).parameters == HANDMADE[name]
    assert set(HANDMADE) == set(BY_HAND)


def test_active_parameters_leave_out_the_experts_not_chosen() -> None:
    architecture = built("deepseek", BY_HAND["deepseek"])
    assert architecture.parameters - architecture.active_parameters == 3 * 4 * EXPERT
    dense = built("llama", SMALL["llama"])
    assert dense.active_parameters == dense.parameters


def test_mtp_depths_are_counted_apart() -> None:
    # a depth: norms of hidden state and embedding, a projection of both, a layer, a norm
    around = 3 * 64 + 2 * 64 * 64
    assert built("mimo", BY_HAND["mimo"]).mtp_parameters == around + ATTENTION + 128 + NORMS + MLP
    moe = LATENT + NORMS + 8 * EXPERT + 6 * 65
    assert built("kimi_k2", BY_HAND["kimi_k2"]).mtp_parameters == 2 * (around + moe)
    nemotron = built("nemotron", SMALL["nemotron_h latent"])
    routed = 6 * 2 * 24 * 32 + 6 * 65 + 2 * 64 * 24 + 2 * 64 * 48
    assert nemotron.mtp_parameters == around + ATTENTION + routed + 2 * 64


def test_shipped_configs_are_those_of_the_reference() -> None:
    names = shipped_files("configs")
    assert len(names) >= 15
    for name in names:
        own = architecture_of(load_config(name))
        assert own.name == name
        path = REFERENCE / "hf_configs" / f"{name}.json"
        if path.is_file():
            assert own.layers == architecture_of(load_config(str(path))).layers
    assert architecture_of(load_config("gpt3-175b")).parameters == 174_604_259_328
    assert architecture_of(load_config("bamba-9b")).parameters == 9_780_235_392
