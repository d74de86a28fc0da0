"""Dense decoders: the Llama line and its variations, one style a family.

Class defaults (ties, biases, head widths) are those of the Hugging Face class of each ``model_type``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from octopipe_cli.profiling.blocks import Block, Norm, Parallel
from octopipe_cli.profiling.configs.assembly import Model
from octopipe_cli.profiling.configs.common import (
    Style,
    all_sliding,
    attention_parts,
    branch,
    decoder,
    dense,
    every_nth_full,
    hidden_size,
    mlp,
    num_layers,
    windows_by_type,
)
from octopipe_cli.profiling.configs.fields import Fields


def _qwen_windows(fields: Fields, count: int) -> list[int | None]:
    """Return the windows of Qwen 2 and 3: none, unless switched on, from ``max_window_layers`` on."""
    if fields.has("layer_types"):
        return windows_by_type(fields, count)
    if not fields.flag("use_sliding_window", default=False):
        return [None] * count
    window, first = fields.whole("sliding_window"), fields.whole("max_window_layers", least=0)
    return [window if layer >= first else None for layer in range(count)]


def exaone_windows(fields: Fields, count: int) -> list[int | None]:
    """Return the windows of EXAONE 4: a pattern of L (local) and G (global), or every nth layer global."""
    if fields.has("layer_types") or not fields.has("sliding_window"):
        return windows_by_type(fields, count)
    window = fields.whole("sliding_window")
    pattern = fields.values.get("sliding_window_pattern", 4)
    if not isinstance(pattern, str):
        return every_nth_full(4)(fields, count)
    if not pattern or set(pattern) - set("LG"):
        fields.fail("sliding_window_pattern", "not a pattern of layers", "letters L and G")
    windows = [window if pattern[layer % len(pattern)] == "L" else None for layer in range(count)]
    return [*windows[:-1], None]


def _gemma3_windows(fields: Fields, count: int) -> list[int | None]:
    return every_nth_full(6)(fields, count)


LLAMA: Final = Style(
    qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), mlp_bias=("mlp_bias", False)
)
QWEN2: Final = Style(qkv_bias=True, windows=_qwen_windows)
QWEN3: Final = Style(
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    qk_norm="head",
    head_dim=128,
    windows=_qwen_windows,
)
GEMMA: Final = Style(tied=True, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), head_dim=256)
#: Class defaults of transformers' Gemma3TextConfig that gemma-3-4b, 12b and 27b lean on.
GEMMA3_TEXT: Final = {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
MISTRAL: Final = Style(windows=all_sliding)
OLMO: Final = Style(qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), norm="plain")
BIASED: Final = Style(qkv_bias=("attention_bias", False), output_bias=("attention_bias", False))


def _stablelm(fields: Fields) -> Model:
    """Return StableLM: layer norms, an optional norm a head, attention and MLP optionally side by side."""
    style = Style(
        norm="layer",
        qkv_bias=("use_qkv_bias", False),
        qk_norm="heads",
        qk_norm_flag=("qk_layernorm", False),
    )
    return parallel(fields, style) if fields.flag("use_parallel_residual", default=False) else dense(fields, style)


def parallel(fields: Fields, style: Style, own_norms: bool = False) -> Model:
    """Return a decoder whose attention and MLP read the same input, normed once or (`own_norms`) for each."""
    count, ffn = num_layers(fields), mlp(fields, style)
    layers = []
    for part in attention_parts(fields, style, count):
        first, *rest = part.blocks
        norms: tuple[Block, ...] = (first, first) if own_norms else (first,)
        layers.append([type(part)(f"{part.name}_mlp", (*norms, Parallel((*rest, ffn))))])
    return decoder(fields, style, layers)


def _cohere(fields: Fields, windows: bool) -> Model:
    """Return Command R: one bias-free layer norm, then attention beside the MLP."""
    style = Style(
        tied=True,
        norm="layer_no_bias",
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        qk_norm="none" if windows else "heads",
        qk_norm_flag=("use_qk_norm", False),
        windows=every_nth_full(4) if windows else None,
    )
    return parallel(fields, style)


def _gemma3(fields: Fields) -> Model:
    """Return Gemma 3, whose text config, where nested, leaves out what equals class defaults, as it was released."""
    style = replace(GEMMA, sandwich="both", qk_norm="head", windows=_gemma3_windows, soft_cap=False)
    if fields.outer is None:
        return dense(fields, style)
    told = {key: value for key, value in fields.values.items() if value is not None}
    return dense(Fields({**GEMMA3_TEXT, **told}, fields.file, fields.family, fields.place, fields.outer), style)


def _minicpm3(fields: Fields) -> Model:
    from octopipe_cli.profiling.configs.latent import latent_dense

    fields.refuse("mlp_bias", (False,), "biases in its MLPs")
    return latent_dense(fields, Style(tied=True))


def _apertus(fields: Fields) -> Model:
    """Return Apertus: an MLP of two matrices whose activation has two weights, norms a head."""
    style = Style(
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        qk_norm="head",
        gated=False,
        mlp_bias=("mlp_bias", False),
    )
    count, hidden = num_layers(fields), hidden_size(fields)
    fields.text("hidden_act", default="xielu", choices=("xielu",))
    ffn = branch("mlp", style, hidden, mlp(fields, style), Norm(2))
    return decoder(fields, style, [(part, ffn) for part in attention_parts(fields, style, count)])


def _chatglm(fields: Fields) -> Model:
    """Return ChatGLM 2 and 3, whose keys are its own."""
    renamed = {
        "hidden_size": fields.whole("hidden_size"),
        "num_hidden_layers": fields.whole("num_layers"),
        "num_attention_heads": fields.whole("num_attention_heads"),
        "vocab_size": fields.whole("padded_vocab_size"),
        "intermediate_size": fields.whole("ffn_hidden_size"),
        "head_dim": fields.whole("kv_channels"),
        "num_key_value_heads": (
            fields.whole("multi_query_group_num") if fields.flag("multi_query_attention", default=False) else None
        ),
        "tie_word_embeddings": fields.values.get("tie_word_embeddings"),
    }
    everywhere = fields.flag("add_bias_linear", default=False)
    style = Style(
        qkv_bias=everywhere or fields.flag("add_qkv_bias", default=False), output_bias=everywhere, mlp_bias=everywhere
    )
    fields.refuse("rmsnorm", (True,), "layer norms")
    return dense(Fields(renamed, fields.file, fields.family, fields.place), style)


def _table() -> dict[str, Style]:
    """Return the families that a style alone describes."""
    return {
        **dict.fromkeys(("llama", "code_llama", "yi", "aquila", "internlm"), LLAMA),
        "cwm": replace(LLAMA, head_dim=128),
        "mistral": MISTRAL,
        "ministral": Style(windows=windows_by_type),
        "ministral3": replace(MISTRAL, head_dim=128),
        "qwen2": QWEN2,
        **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text"), QWEN2),
        "qwen3": QWEN3,
        "qwen3_vl_text": QWEN3,
        "gemma": GEMMA,
        "gemma2": replace(GEMMA, sandwich="both", soft_cap=True, windows=every_nth_full(2)),
        "vaultgemma": replace(GEMMA, soft_cap=True, windows=every_nth_full(2)),
        "phi3": MISTRAL,
        "granite": LLAMA,
        "helium": replace(LLAMA, output_bias=False, head_dim=128),
        "seed_oss": Style(
            qkv_bias=("attention_bias", True),
            output_bias=("attention_out_bias", False),
            mlp_bias=("mlp_bias", False),
            head_dim=128,
        ),
        "smollm3": replace(LLAMA, tied=True, windows=_qwen_windows),
        "arcee": replace(LLAMA, gated=False),
        "nemotron": replace(LLAMA, gated=False, norm="layer"),
        "olmo": OLMO,
        "olmo2": replace(BIASED, sandwich="post", qk_norm="width"),
        "olmo3": replace(BIASED, sandwich="post", qk_norm="width", windows=every_nth_full(4)),
        "glm": Style(qkv_bias=("attention_bias", True), head_dim=128),
        "glm4": Style(qkv_bias=("attention_bias", True), head_dim=128, sandwich="both"),
        "exaone": Style(),
        "exaone4": Style(sandwich="post", qk_norm="head", windows=exaone_windows),
        "hunyuan_v1_dense": replace(BIASED, qk_norm="head"),
        "ernie4_5": Style(
            tied=True,
            qkv_bias=("use_bias", False),
            output_bias=("use_bias", False),
            mlp_bias=("use_bias", False),
            head_dim=128,
        ),
        "starcoder2": Style(
            tied=True,
            norm="layer",
            qkv_bias=("use_bias", True),
            output_bias=("use_bias", True),
            mlp_bias=("use_bias", True),
            gated=False,
            windows=all_sliding,
        ),
        "internlm2": Style(qkv_bias=("bias", False), output_bias=("bias", False)),
        "internlm3": Style(
            qkv_bias=("qkv_bias", False), output_bias=("bias", False), mlp_bias=("bias", False), head_dim=128
        ),
        "baichuan": Style(),
        "orion": Style(norm="layer"),
        "minicpm": Style(tied=True, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False)),
        "xverse": Style(),
    }


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    **{family: partial(dense, style=style) for family, style in _table().items()},
    "gemma3_text": _gemma3,
    "stablelm": _stablelm,
    "cohere": partial(_cohere, windows=False),
    "cohere2": partial(_cohere, windows=True),
    "minicpm3": _minicpm3,
    "apertus": _apertus,
    "chatglm": _chatglm,
}
