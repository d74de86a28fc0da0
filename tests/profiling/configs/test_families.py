from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.formats import parse_json
from octopipe_cli.profile import MAX_LAYERS
from octopipe_cli.profiling.architecture import Architecture, walk
from octopipe_cli.profiling.blocks import Attention, Embedding, Head, LatentAttention, Moe, Parallel, Shared
from octopipe_cli.profiling.configs.families import Config, architecture_of, load_config
from tests.profiling.configs.small import BASE, BY_HAND, LATENT, SMALL, config, nested

ALL = {**SMALL, **BY_HAND}


def built(document: dict[str, Any], granularity: Any = "layer") -> Architecture:
    return architecture_of(Config(document, "config.json", "small", ""), granularity)


def kinds(architecture: Architecture) -> list[str]:
    return [layer.kind for layer in architecture.layers]


def test_soft_capped_logits_by_key_and_by_class() -> None:
    def capped(document: dict[str, Any]) -> bool:
        head = built(document).layers[-1].blocks[-1]
        assert isinstance(head, Head)
        return head.soft_capped

    assert [capped(SMALL[name]) for name in ("gemma2", "gemma3_text", "gemma3n")] == [True, False, True]
    assert not capped({**SMALL["gemma2"], "final_logit_softcapping": None})
    assert capped({**SMALL["gemma3_text"], "final_logit_softcapping": 30.0})
    assert not capped({**SMALL["gemma"], "final_logit_softcapping": 30.0})  # its class knows no cap


def test_class_defaults_of_head_widths_and_biases() -> None:
    for family in ("seed_oss", "ernie4_5", "llama4_text", "minimax_m2", "cwm"):
        document = {key: value for key, value in SMALL[family].items() if key != "head_dim"}
        blocks = [block for layer in built(document).layers for block in walk(layer.blocks)]
        assert {block.head_dim for block in blocks if isinstance(block, Attention)} == {128}
    bias = {**SMALL["glm4"]}
    del bias["attention_bias"]
    assert built(bias).parameters == built(SMALL["glm4"]).parameters


def test_keys_and_values_used_again_travel_between_layers() -> None:
    layers = built(BY_HAND["hunyuan"]).layers
    assert [layer.carried for layer in layers] == [1, 2, 1, 2, 1, 1]
    again = [block.shares_kv for layer in layers for block in walk(layer.blocks) if isinstance(block, Attention)]
    assert again == [False, True, False, True]


def refused(document: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as error:
        built(document)
    assert error.value.file == "config.json"
    assert error.value.exit_code == 2
    return error.value


@pytest.mark.parametrize("name", sorted(ALL))
def test_layers_stand_in_order_and_equal_names_mean_equal_layers(name: str) -> None:
    for granularity in ("layer", "sublayer"):
        architecture = built(ALL[name], granularity)
        roles = [layer.role for layer in architecture.layers]
        order = ["embedding", "decoder", "mtp", "head"]
        assert roles == sorted(roles, key=order.index)
        assert roles.count("embedding") == roles.count("head") == 1
        for layer in architecture.layers:
            assert architecture.kinds[layer.kind] == layer
        assert len(set(architecture.kinds.values())) == len(architecture.kinds)
        for group in architecture.tied:
            assert len(group) > 1
            assert max(group) < len(architecture.layers)


def test_granularity() -> None:
    llama = SMALL["llama"]
    assert kinds(built(llama)) == ["embedding", *["attention_mlp"] * 4, "head"]
    assert kinds(built(llama, "sublayer")) == ["embedding", *["attention", "mlp"] * 4, "head"]
    # one layer is one block there already
    hybrid = ["embedding", "mamba", "mlp", "mamba", "attention", "mlp", "head"]
    assert kinds(built(SMALL["nemotron_h"])) == hybrid
    assert kinds(built(SMALL["nemotron_h"], "sublayer")) == hybrid
    # attention beside the MLP can't be taken apart
    assert kinds(built(SMALL["gpt_neox"], "sublayer")) == ["embedding", *["attention_mlp"] * 4, "head"]


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("gemma2", ["sliding_attention_mlp", "attention_mlp"] * 2),
        ("gemma3_text", ["sliding_attention_mlp"] * 4),
        ("gemma3", ["sliding_attention_mlp", "attention_mlp"] * 2),
        ("olmo3", [*["sliding_attention_mlp"] * 3, "attention_mlp"]),
        ("exaone4", [*["sliding_attention_mlp"] * 3, "attention_mlp"]),
        ("mistral", ["sliding_attention_mlp"] * 4),
        ("gpt_oss", ["sliding_attention_moe", "attention_moe"] * 2),
        ("qwen2_moe", ["attention_mlp", "attention_moe"] * 2),
        ("qwen3_moe", ["attention_moe", "attention_mlp", "attention_moe", "attention_moe"]),
        (
            "llama4_text",
            ["chunked_attention_mlp", "chunked_attention_moe", "chunked_attention_mlp", "attention_moe"],
        ),
        ("deepseek_v3", ["attention_mlp", *["attention_moe"] * 3]),
        ("jamba", ["mamba_mlp", "attention_moe", "mamba_mlp", "mamba_moe"]),
        ("bamba", ["mamba_mlp", "mamba_mlp", "attention_mlp", "mamba_mlp"]),
        ("granitemoehybrid", ["mamba_moe", "attention_moe", "mamba_moe", "mamba_moe"]),
        ("falcon_h1", ["attention_mamba_mlp"] * 4),
        ("nemotron_h latent", ["mamba", "moe", "attention"]),
        ("qwen3_next", [*["linear_attention_moe"] * 3, "attention_moe"]),
        ("qwen3_5", ["linear_attention_mlp", "attention_mlp"] * 2),
        ("minimax_text_01", [*["linear_attention_moe"] * 3, "attention_moe"]),
        ("kimi_linear", ["linear_attention_mlp", "attention_moe", "linear_attention_moe", "attention_moe"]),
        ("lfm2", ["convolution_mlp", "attention_mlp", "convolution_mlp", "convolution_mlp"]),
        ("mimo_v2_flash", ["attention_mlp", *["sliding_attention_moe"] * 3]),
        ("step3p7", ["sliding_attention_mlp", "attention_moe", "sliding_attention_moe", "attention_moe"]),
        ("nemotron-nas", ["attention_mlp", "mlp", "linear", "sliding_attention_linear"]),
        ("openelm", ["attention_mlp", "attention_mlp_2"]),
        ("gemma4 experts", ["sliding_attention_mlp_moe", "attention_mlp_moe"] * 2),
        # the last two layers use earlier keys and values
        (
            "gemma4 inputs",
            ["sliding_attention_mlp", "attention_mlp", "sliding_attention_mlp_2", "attention_mlp_2"],
        ),
        ("glm_moe_dsa", ["attention_mlp", "attention_moe", "attention_moe_2", "attention_moe"]),
        (
            "deepseek_v4",
            ["sliding_attention_moe", "sparse_attention_moe", "compressed_attention_moe", "sparse_attention_moe"],
        ),
    ],
)
def test_kinds(name: str, decoder: list[str]) -> None:
    layers = built(ALL[name]).layers
    assert [layer.kind for layer in layers if layer.role == "decoder"] == decoder


def test_windows_and_chunks() -> None:
    def seen(name: str) -> list[Any]:
        blocks = [block for layer in built(ALL[name]).layers for block in walk(layer.blocks)]
        return [(block.window, block.chunk) for block in blocks if isinstance(block, Attention)]

    assert seen("gemma2") == [(32, None), (None, None)] * 2
    assert seen("llama4_text") == [*[(None, 32)] * 3, (None, None)]
    late = config("qwen2", use_sliding_window=True, sliding_window=32, max_window_layers=3)
    blocks = [block for layer in built(late).layers for block in layer.blocks if isinstance(block, Attention)]
    assert [block.window for block in blocks] == [None, None, None, 32]


def test_ties_of_the_head_by_key_and_by_class() -> None:
    def tied(document: dict[str, Any]) -> bool:
        head = built(document).layers[-1].blocks[-1]
        assert isinstance(head, Head)
        return head.tied

    assert tied(SMALL["gemma"])
    assert not tied(SMALL["llama"])
    assert not tied({**SMALL["gemma"], "tie_word_embeddings": False})
    assert tied({**SMALL["llama"], "tie_word_embeddings": True})
    text = config("gemma3_text", head_dim=32, sliding_window=32)
    assert tied(nested("gemma3", text))
    assert not tied(nested("gemma3", text, tie_word_embeddings=False))
    # the text config's own key counts first
    assert tied(nested("gemma3", {**text, "tie_word_embeddings": True}, tie_word_embeddings=False))
    assert built(SMALL["gemma"]).tied == ((0, 5),)
    assert built(SMALL["llama"]).tied == ()
    # Mistral Small 3 comes without the key, and is not tied; Ministral 3 comes both ways
    assert not tied(nested("mistral3", config("mistral")))
    error = refused(nested("mistral3", config("ministral3")))
    assert 'needs the key "tie_word_embeddings"' in error.message


def test_mtp_depths_share_the_embedding_and_the_head_predicts_for_them() -> None:
    architecture = built(BY_HAND["kimi_k2"])
    assert kinds(architecture)[-3:] == ["mtp", "mtp_2", "head"]
    assert architecture.tied == ((0, 5, 6),)
    assert [layer.carried for layer in architecture.layers] == [1, 1, 1, 1, 1, 2, 3, 1]
    head = architecture.layers[-1].blocks[-1]
    assert isinstance(head, Head)
    assert head.predictions == 3
    # at any granularity an MTP depth stays one layer
    assert built(BY_HAND["kimi_k2"], "sublayer").tied == ((0, 9, 10),)
    tied = built({**BY_HAND["mimo"], "tie_word_embeddings": True})
    assert tied.tied == ((0, 5, 6),)


def test_shared_blocks_are_stored_by_their_first_layer() -> None:
    # mamba, hybrid (block 0), hybrid (block 1), hybrid (block 0 again)
    architecture = built(SMALL["zamba2"])
    assert kinds(architecture) == [
        "embedding",
        "mamba",
        "shared_attention_mlp_mamba",
        "shared_attention_mlp_mamba_2",
        "shared_attention_mlp_mamba_3",
        "head",
    ]
    assert architecture.tied == ((0, 5), (2, 4))
    first, _, again = architecture.layers[2:5]
    block = next(block for block in first.blocks if isinstance(block, Shared))
    assert first.parameters - again.parameters == sum(part.parameters for part in block.blocks)
    assert {layer.carried for layer in architecture.layers[:-1]} == {2}
    apart = built(SMALL["zamba2"], "sublayer")
    assert kinds(apart)[1:4] == ["mamba", "shared_attention_mlp", "mamba"]
    assert apart.tied == ((0, 8), (2, 6))
    # between the shared block and its Mamba its output travels beside hidden states and embeddings
    assert [layer.carried for layer in apart.layers[1:4]] == [2, 3, 2]


def test_parallel_blocks() -> None:
    layer = built(SMALL["falcon_h1"]).layers[1]
    branches = next(block for block in layer.blocks if isinstance(block, Parallel)).branches
    assert [type(block).__name__ for block in branches] == ["Attention", "Mamba2"]
    assert [type(block).__name__ for block in walk(layer.blocks)] == ["Norm", "Attention", "Mamba2", "Norm", "Mlp"]


def test_block_residuals_travel_across_boundaries() -> None:
    # blocks of two layers: the embeddings, then every block begun so far
    assert [layer.carried for layer in built(BY_HAND["kimi_k3"]).layers] == [1, 2, 2, 3, 3, 1]


def test_inner_width_of_mamba_is_heads_times_their_width() -> None:
    from octopipe_cli.profiling.blocks import Mamba2

    block = next(
        block for layer in built(SMALL["nemotron_h"]).layers for block in layer.blocks if isinstance(block, Mamba2)
    )
    assert block.inner == 64  # 8 x 8, not expand x hidden


def test_per_head_dimensions() -> None:
    deep = built(SMALL["deepseek_v2 without query latent"])
    block = next(block for layer in deep.layers for block in layer.blocks if isinstance(block, LatentAttention))
    assert block.query_rank is None
    assert block.head_dim == 20
    routed = next(
        block for layer in built(SMALL["llama4_text"]).layers for block in layer.blocks if isinstance(block, Moe)
    )
    assert routed.shared_intermediate == 96
    table = built(SMALL["opt"]).layers[0].blocks[0]
    assert isinstance(table, Embedding)
    assert table.positions == 52


def test_names_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL["llama"]))
    for path in (folder, folder / "config.json"):
        assert load_config(str(path)).name == "my-model"
    other = tmp_path / "tiny.json"
    other.write_text(json.dumps(SMALL["llama"]))
    read = load_config(str(other))
    assert (read.name, read.file) == ("tiny", str(other))
    assert read.digest.startswith("sha256:")
    assert load_config("llama-3.1-8b").name == "llama-3.1-8b"
    with pytest.raises(InputError, match="neither a file nor one that ships") as error:
        load_config("llama-3.1-8")
    assert error.value.remedy == 'did you mean "llama-3.1-8b"?'
    with pytest.raises(InputError, match="no such file"):
        load_config(str(tmp_path / "missing.json"))


def test_bare_infinities_are_allowed_and_other_faults_are_not(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    text = json.dumps(SMALL["nemotron_h"])
    file.write_text(text[:-1] + ', "time_step_limit": [0.0, Infinity]}')
    assert architecture_of(load_config(str(file))).family == "nemotron_h"
    for more, message, path in (
        ('"time_step_limit": [NaN]', "not a finite number", "$.time_step_limit[0]"),
        ('"vocab_size": 3', "stands twice", "$.vocab_size"),
        ('"x": {"y": 1, "y": 2}', "stands twice", "$.x.y"),
    ):
        file.write_text(f"{text[:-1]}, {more}}}")
        with pytest.raises(InputError, match=message) as error:
            load_config(str(file))
        assert error.value.path == path
    for text, message in (("[1]", "not an object"), ("", "the file is empty"), ("{", "not valid JSON")):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            load_config(str(file))
    with pytest.raises(InputError, match="not a finite number"):
        parse_json("[Infinity]", "x")


def test_an_unknown_family_is_refused() -> None:
    error = refused(config("rwkv5"))
    assert (error.path, error.found) == ("$.model_type", '"rwkv5"')
    assert "not known" in error.message
    assert "llama" in str(error.expected)
    assert refused(config("qwen33")).remedy == 'did you mean "qwen3"?'
    error = refused(nested("some_vl", config("unheard_of")))
    assert error.path == "$.text_config.model_type"
    assert 'needs the key "model_type"' in refused(dict(BASE)).message
    # the class in `architectures` where there is no model_type
    assert built({**BASE, "architectures": ["LlamaForCausalLM"]}).family == "llama"
    assert (
        built(nested("kimi_vl", config("deepseek_v3", LATENT, first_k_dense_replace=4, **_routed()))).family
        == "deepseek_v3"
    )


def _routed() -> dict[str, int]:
    return {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}


NEEDED = {
    "llama": ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    "mixtral": ["num_local_experts", "num_experts_per_tok"],
    "gemma2": ["sliding_window"],
    "deepseek_v3": [
        "q_lora_rank",
        "kv_lora_rank",
        "first_k_dense_replace",
        "n_routed_experts",
        "moe_intermediate_size",
    ],
    "deepseek_v32": ["index_n_heads", "index_topk"],
    "deepseek_v4": ["compress_ratios", "o_groups", "hc_mult"],
    # their classes have numbers of their own for these, so a missing key may not mean as many as heads, or none
    "mistral": ["num_key_value_heads"],
    "qwen3": ["num_key_value_heads"],
    "gemma": ["num_key_value_heads"],
    "glm": ["num_key_value_heads"],
    "glm4_moe": ["n_shared_experts", "num_key_value_heads"],
    "ernie4_5_moe": ["moe_num_shared_experts"],
    "grok-1": ["tie_word_embeddings"],
    "hunyuan": ["cla_share_factor"],
    "jamba": ["num_experts", "attn_layer_period", "expert_layer_offset"],
    "bamba": ["attn_layer_indices", "mamba_d_state"],
    "nemotron_h": ["hybrid_override_pattern", "mamba_num_heads", "ssm_state_size", "n_groups"],
    "nemotron_h latent": ["mtp_layers_block_type", "moe_shared_expert_intermediate_size"],
    "qwen3_next": ["linear_num_key_heads", "shared_expert_intermediate_size"],
    "kimi_linear": ["linear_attn_config"],
    "minimax_text_01": ["attn_type_list"],
    "nemotron-nas": ["block_configs"],
    "openelm": ["ffn_multipliers"],
    "dbrx": ["attn_config", "ffn_config"],
    "gpt2": ["n_positions"],
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in NEEDED.items() for key in keys])
def test_a_missing_field_is_named(name: str, key: str) -> None:
    error = refused({own: value for own, value in ALL[name].items() if own != key})
    missing = {"linear_attn_config": "num_heads"}.get(key, key)
    message = error.message.replace("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    assert f'"{missing}"' in message
    assert "which is missing or null" in message
    assert error.path == "$"


def test_a_missing_field_of_a_nested_config() -> None:
    text = {key: value for key, value in SMALL["qwen3_5"]["text_config"].items() if key != "num_attention_heads"}
    error = refused({**SMALL["qwen3_5"], "text_config": text})
    assert (error.path, error.message) == (
        "$.text_config",
        'a qwen3_5_text config needs the key "num_attention_heads" (or "n_head", "n_heads"), which is missing or null',
    )


@pytest.mark.parametrize(
    ("name", "change", "path", "message"),
    [
        ("llama", {"hidden_size": "64"}, "$.hidden_size", "not a whole number in range"),
        ("llama", {"hidden_size": True}, "$.hidden_size", "not a whole number in range"),
        ("llama", {"vocab_size": 0}, "$.vocab_size", "not a whole number in range"),
        ("llama", {"num_hidden_layers": MAX_LAYERS}, "$.num_hidden_layers", "too many layers"),
        ("llama", {"attention_bias": 1}, "$.attention_bias", "not true or false"),
        ("llama", {"num_attention_heads": 5}, "$.num_attention_heads", "the heads don't divide"),
        ("llama", {"num_key_value_heads": 3}, "$.num_key_value_heads", "not a number of groups"),
        ("llama", {"tie_word_embeddings": "no"}, "$.tie_word_embeddings", "not true or false"),
        ("ministral", {"layer_types": ["full_attention"]}, "$.layer_types", "another length"),
        ("ministral", {"layer_types": ["full_attention"] * 3 + ["x"]}, "$.layer_types[3]", "not a layer"),
        ("gemma2", {"layer_types": "full"}, "$.layer_types", "not a list"),
        ("apertus", {"hidden_act": "silu"}, "$.hidden_act", "is not known"),
        ("nemotron_h", {"hybrid_override_pattern": "M-x*-"}, "$.hybrid_override_pattern", "unknown layer 'x'"),
        ("nemotron_h", {"num_hidden_layers": 7}, "$.num_hidden_layers", "the pattern has 5 layers"),
        ("bamba", {"attn_layer_indices": [9]}, "$.attn_layer_indices", "behind the last layer"),
        ("bamba", {"mamba_n_heads": 7}, "$.mamba_n_heads", "don't divide"),
        ("falcon_h1", {"mamba_d_head": 13}, "$.mamba_n_heads", "don't give the inner width"),
        ("mamba2", {"head_dim": 7}, "$.num_heads", "don't give the expanded width"),
        ("deepseek_v4", {"compress_ratios": [0, 4, 8, 4]}, "$.compress_ratios", "not the ratios"),
        ("deepseek_v32", {"q_lora_rank": None}, "$.q_lora_rank", "without a query latent"),
        ("glm_moe_dsa", {"index_topk_pattern": "FX"}, "$.index_topk_pattern", "not a pattern"),
        ("minimax_m2", {"attn_type_list": [0, 1, 1, 1]}, "$.attn_type_list", "with linear attention"),
        ("hunyuan_v1_moe", {"moe_topk": [1, 2, 2, 2]}, "$.moe_topk", "whose layers differ"),
        ("deepseek_v3", {"mlp_bias": True}, "$.mlp_bias", "biases in its MLPs"),
        (
            "step3",
            {"text_config": {**BY_HAND["step3"]["text_config"], "num_attention_groups": 2}},
            "$.text_config.num_attention_groups",
            "more than one head of keys",
        ),
        # so many layers or streams would fill the memory before anything else notices
        ("mimo", {"num_nextn_predict_layers": 10**9}, "$.num_nextn_predict_layers", "not a whole number in range"),
        ("kimi_k2", {"num_nextn_predict_layers": 65}, "$.num_nextn_predict_layers", "not a whole number in range"),
        ("minimax_m2", {"mtp_transformer_layers": 10**9}, "$.mtp_transformer_layers", "not a whole number in range"),
        ("longcat_flash", {"num_layers": 10**9}, "$.num_layers", "too many layers"),
        (
            "gemma3n",
            {"text_config": {**SMALL["gemma3n"]["text_config"], "altup_num_inputs": 10**9}},
            "$.text_config.altup_num_inputs",
            "not a whole number in range",
        ),
        (
            "zamba2 adapters",
            {"layers_block_type": None, "hybrid_layer_ids": [4]},
            "$.hybrid_layer_ids",
            "behind the last",
        ),
        ("jamba", {"attn_layer_offset": 99}, "$.attn_layer_offset", "not an offset within the period"),
        ("mixtral", {"num_experts_per_tok": 7}, "$", "more experts than there are"),
        ("mamba_ssm", {"attn_layer_idx": [1]}, "$.attn_layer_idx", "attention between its layers"),
        ("chatglm", {"rmsnorm": False}, "$.rmsnorm", "layer norms"),
        ("mpt", {"no_bias": False}, "$.no_bias", "biases"),
        ("nemotron-nas", {"block_configs": [1, 2, 3, 4]}, "$.block_configs", "entry 0 is not an object"),
        ("openelm", {"ffn_multipliers": [0.5, "x"]}, "$.ffn_multipliers", "not a list of numbers"),
        ("kimi_linear", {"num_nextn_predict_layers": 1}, "$.num_nextn_predict_layers", "MTP depths"),
    ],
)
def test_a_wrong_field_is_named(name: str, change: dict[str, Any], path: str, message: str) -> None:
    error = refused({**ALL[name], **change})
    assert error.path == path
    assert message in error.message


def test_wrong_fields_below() -> None:
    blocks = [dict(block) for block in BY_HAND["nemotron-nas"]["block_configs"]]
    blocks[3] = {"attention": {"n_heads_in_group": 3}, "ffn": {"ffn_mult": 1}}
    error = refused({**BY_HAND["nemotron-nas"], "block_configs": blocks})
    assert error.path == "$.block_configs[3].attention.n_heads_in_group"
    blocks[3] = {"attention": {"no_op": True}, "ffn": {}}
    error = refused({**BY_HAND["nemotron-nas"], "block_configs": blocks})
    assert (error.path, '"ffn_mult"' in error.message) == ("$.block_configs[3].ffn", True)
    kimi = {
        **SMALL["kimi_linear"],
        "linear_attn_config": {**SMALL["kimi_linear"]["linear_attn_config"], "kda_layers": [1]},
    }
    assert refused(kimi).path == "$.linear_attn_config.kda_layers"


STRANGE: list[Any] = [None, -1, 0, 3, "x", [], [1], {}, True, 1.5, 10**12, [None]]


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_strange_value_is_an_input_error_or_a_model(name: str) -> None:
    document = ALL[name]
    places = [(key,) for key in document if key != "text_config"]
    places += [("text_config", key) for key in document.get("text_config", {})]
    for place in places:
        for value in STRANGE:
            changed = (
                {**document, "text_config": dict(document["text_config"])}
                if "text_config" in document
                else dict(document)
            )
            target = changed["text_config"] if len(place) > 1 else changed
            target[place[-1]] = value
            assert acceptable(changed)


def acceptable(document: dict[str, Any]) -> bool:
    """Return whether a config gives a model, or an error that says where."""
    try:
        return built(document).parameters > 0
    except InputError as error:
        return error.file == "config.json" and str(error.path).startswith("$")
