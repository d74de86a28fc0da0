"""Configs to architectures: which reader a ``model_type`` has, nested text configs, configs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, did_you_mean, digest, parse_json, path_of, read_text, show, shown_file
from octopipe_cli.profiling.architecture import Architecture, Granularity, walk
from octopipe_cli.profiling.blocks import Moe
from octopipe_cli.profiling.configs import dense, experts, gemma3n, hybrid, irregular, latent, linear, moe, older
from octopipe_cli.profiling.configs.assembly import Model, assemble
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.shipped import shipped_files

#: Reader by ``model_type``, all families.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    **dense.READERS,
    **moe.READERS,
    **experts.READERS,
    **gemma3n.READERS,
    **latent.READERS,
    **hybrid.READERS,
    **linear.READERS,
    **irregular.READERS,
    **older.READERS,
}

#: Where a multimodal config keeps its language model.
NESTED: Final = ("text_config", "llm_config", "language_config")

#: Models whose text layers read images' features by cross attention.
CROSS_ATTENTION: Final = ("mllama",)

#: Other names of a ``model_type``, as remote code, multimodal wrappers and their text configs write it.
SAME_AS: Final[Mapping[str, str]] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "llama4": "llama4_text",
    "step3p7": "step3p5",
    "step3_vl": "step3_text",
    "MiniMaxText01": "minimax_text_01",
    "MiniMaxM1": "minimax_m1",
    "Yi": "llama",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "nemotron_nas": "nemotron-nas",
    "deci": "nemotron-nas",
    "mimo_v2": "mimo_v2_flash",
    **dict.fromkeys(("glm4v_moe", "glm4v_moe_text"), "glm4_moe"),
    "glm4v_text": "glm4",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen2_5_omni_text": "qwen2_5_vl_text",
}

#: Families by the class in ``architectures``, for configs without a ``model_type``.
BY_CLASS: Final[Mapping[str, str]] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Qwen3NextForCausalLM": "qwen3_next",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "Glm4MoeForCausalLM": "glm4_moe",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "GptOssForCausalLM": "gpt_oss",
    "NemotronHForCausalLM": "nemotron_h",
    "DeciLMForCausalLM": "nemotron-nas",
    "JambaForCausalLM": "jamba",
    "BambaForCausalLM": "bamba",
    "Zamba2ForCausalLM": "zamba2",
    "FalconH1ForCausalLM": "falcon_h1",
    "MiniMaxText01ForCausalLM": "minimax_text_01",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MiMoForCausalLM": "mimo",
    "MiMoV2FlashForCausalLM": "mimo_v2_flash",
    "KimiLinearForCausalLM": "kimi_linear",
    "Olmo3ForCausalLM": "olmo3",
}


@dataclass(frozen=True)
class Config:
    """A config as it was read.

    Parameters
    ----------
    document
        The whole JSON object.
    file
        Where from, as errors name it.
    name
        What the model is called: the shipped name, or the file's (its folder's for ``config.json``).
    digest
        Of the document.
    """

    document: Document
    file: str
    name: str
    digest: str


def load_config(name_or_path: str) -> Config:
    """Return the config in a file, or the one that ships under a name; bare infinities in the JSON are allowed.

    Raises
    ------
    InputError
        Where there is no such file or name, or where it is no JSON object.
    """
    shipped = shipped_files("configs")
    if name_or_path in shipped and not Path(name_or_path).exists():
        path, name = str(shipped[name_or_path]), name_or_path
    else:
        path, name = name_or_path, _name(name_or_path)
        is_path = "/" in name_or_path or name_or_path.endswith(".json") or name_or_path in ("", "-")
        if not is_path and not Path(name_or_path).exists():
            raise InputError(
                f"no config {show(name_or_path)}: neither a file nor one that ships with octopipe",
                expected=f"the path of a config.json, or one of {', '.join(shipped)}",
                remedy=did_you_mean(name_or_path, shipped, "give the path of the model's config.json"),
            )
        if Path(path).is_dir():
            path = str(Path(path) / "config.json")
    document = parse_json(read_text(path), path, infinities=True)
    file = shown_file(path)
    if not isinstance(document, dict):
        raise InputError("not an object", file=file, path="$", found=show(document), expected="a config.json")
    return Config(document, file, name, digest(document))


def is_config(name: str) -> bool:
    """Return whether a config ships under this name."""
    return name in shipped_files("configs")


def _name(path: str) -> str:
    if path == "-":
        return "model"
    stem = Path(path).name.removesuffix(".json")
    if stem == "config":
        stem = Path(path).resolve().parent.name
    return stem or "model"


def architecture_of(config: Config, granularity: Granularity = "layer") -> Architecture:
    """Return the architecture a config describes.

    Parameters
    ----------
    config
        What `load_config` gave.
    granularity
        ``layer``: a layer as the config counts it. ``sublayer``: attention, Mamba, MLP and experts are layers each.

    Raises
    ------
    InputError
        Where the family is not known, or a field that it needs is missing, wrong, or says something not known.
    """
    fields = text_fields(config.document, config.file)
    architecture = assemble(READERS[fields.family](fields), config.name, fields.family, granularity)
    for layer in architecture.kinds.values():
        for block in walk(layer.blocks):
            if isinstance(block, Moe) and block.active > block.experts + block.zero_experts:
                raise InputError(
                    "a token cannot meet more experts than there are",
                    file=config.file,
                    path=path_of(fields.place),
                    found=f"{block.active} for each token, {block.experts} experts",
                )
    return architecture


def outer_fields(document: Mapping[str, Any], file: str) -> Fields:
    """Return the fields of the config that holds those of the language model and of the encoders."""
    outer = Fields(document, file, "multimodal")
    return outer.below("thinker_config") or outer


def text_fields(document: Mapping[str, Any], file: str) -> Fields:
    """Return the fields of the language model, its family with them."""
    outer = outer_fields(document, file)
    if outer.values.get("model_type") in CROSS_ATTENTION:
        outer.fail(
            "model_type",
            "its text layers attend to the features of images (cross attention), which no chain of layers can say",
            remedy="estimate the language model it was made from, Llama 3.1, and write the layers between by hand",
        )
    for key in NESTED:
        inner = outer.below(key)
        if inner is not None and inner.has("hidden_size", "n_embd", "num_hidden_layers", "layers_block_type"):
            family = _family(inner, outer)
            return Fields(inner.values, file, family, inner.place, outer)
    if "ssm_cfg" in document and not outer.has("model_type"):
        return Fields(document, file, "mamba_ssm")
    return Fields(document, file, _family(outer))


def _family(fields: Fields, outer: Fields | None = None) -> str:
    """Return the family's name: the text config's ``model_type``, the outer one's, or by the class."""
    places = [fields] if outer is None else [fields, outer]
    told = [(place, place.text("model_type")) for place in places if place.has("model_type")]
    for _, name in told:
        family = SAME_AS.get(name, name)
        if family in READERS:
            return family
    for place in places:
        if not place.has("model_type") and place.has("architectures"):
            for name in place.items("architectures"):
                if isinstance(name, str) and name in BY_CLASS:
                    return BY_CLASS[name]
    if not told:
        fields.missing(["model_type"])
    place, name = told[0]
    return place.fail(
        "model_type",
        f"the model family {show(name)} is not known: its layers can't be told without guessing",
        expected=f"one of {len(READERS)} families: " + ", ".join(sorted(READERS)),
        remedy=did_you_mean(name, READERS, "describe the model in a profile of your own, or import measured times"),
    )
