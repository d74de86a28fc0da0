"""Vision encoders by the kind of their blocks: SigLIP, CLIP, Llama 4, Pixtral, InternViT, Qwen's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from octopipe_cli.profiling.blocks import Attention, Block, Mlp, Norm
from octopipe_cli.profiling.configs.assembly import Part
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.image_blocks import LayerScale, PatchEmbedding

#: More blocks, and pixels along a side, than any encoder has.
MOST_BLOCKS: Final = 500
MOST_PIXELS: Final = 16384


@dataclass(frozen=True)
class Encoder:
    """A vision encoder for images of one size.

    Parameters
    ----------
    side
        Patches along a side of an image.
    positions
        All positions of an image: the patches, and a class token where there is one.
    embedding, blocks, final
        The blocks before, of each layer its parts, and those behind.
    """

    width: int
    side: int
    positions: int
    embedding: tuple[Block, ...]
    blocks: Sequence[tuple[Part, ...]]
    final: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Kind:
    """How the blocks of an encoder are made.

    Parameters
    ----------
    defaults
        What its class has where a config leaves a key out.
    """

    defaults: Mapping[str, Any]
    norm: str = "layer"
    bias: bool = True
    gated: bool = False
    rotary: bool = False
    patch_bias: bool = True
    class_token: bool = False


SIGLIP: Final = Kind(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 16,
    }
)
CLIP: Final = Kind({**SIGLIP.defaults, "patch_size": 32}, patch_bias=False, class_token=True)
LLAMA4: Final = Kind(
    {
        "hidden_size": 768,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "num_attention_heads": 16,
        "num_channels": 3,
        "image_size": 448,
        "patch_size": 14,
    },
    rotary=True,
    patch_bias=False,
    class_token=True,
)
PIXTRAL: Final = Kind(
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_channels": 3,
        "image_size": 1024,
        "patch_size": 16,
    },
    norm="rms",
    bias=False,
    gated=True,
    rotary=True,
    patch_bias=False,
)
INTERN: Final = Kind(
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_channels": 3,
        "image_size": 448,
        "patch_size": 14,
    },
    class_token=True,
)


def with_defaults(fields: Fields, defaults: Mapping[str, Any]) -> Fields:
    """Return fields with a class's values where the config says nothing."""
    told = {key: value for key, value in fields.values.items() if value is not None}
    return Fields({**defaults, **told}, fields.file, fields.family, fields.place, fields.outer)


def length(fields: Fields, key: str, most: int = MOST_PIXELS) -> int:
    """Return a number of pixels; of a pair, which must be equal, the one."""
    value = fields.values.get(key)
    if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] == value[1]:
        return Fields({key: value[0]}, fields.file, fields.family, fields.place).whole(key, most=most)
    return fields.whole(key, most=most)


def block_count(fields: Fields, *keys: str) -> int:
    """Return how many blocks the encoder has."""
    return fields.whole(*keys, most=MOST_BLOCKS)


def norm_of(kind: str, width: int) -> Norm:
    """Return a layer norm (``layer``) or an RMS norm."""
    return Norm(width, bias=kind == "layer")


def side_of(fields: Fields, image_size: int, unit: int) -> int:
    """Return how many patches of so many pixels an image has along a side."""
    if image_size < unit:
        fields.fail("patch_size", "an image is smaller than its patches", f"at most {image_size} pixels")
    return image_size // unit


def parts(
    width: int, attention: Attention, ffn: Mlp, norm: str, scaled: bool = False, name: str = "attention"
) -> tuple[Part, Part]:
    """Return attention and feed-forward of a block, each behind a norm, their outputs scaled where `scaled`."""
    scale = (LayerScale(width),) if scaled else ()
    return (
        Part(name, (norm_of(norm, width), attention, *scale)),
        Part("mlp", (norm_of(norm, width), ffn, *scale)),
    )


def heads_of(fields: Fields, width: int, *keys: str) -> tuple[int, int]:
    """Return the number of heads and the width of each."""
    heads = fields.whole(*keys)
    if width % heads:
        key = next(key for key in keys if fields.has(key))
        fields.fail(key, "the heads don't divide the encoder's width", f"a divisor of {width}")
    return heads, width // heads


def plain(fields: Fields, kind: Kind, used: int | None = None, image_size: int | None = None) -> Encoder:
    """Return an encoder of equal blocks.

    Parameters
    ----------
    used
        How many of its blocks run: where a projector takes the output of an earlier one, those behind are left out.
    image_size
        Pixels along a side; None: the config's.
    """
    fields = with_defaults(fields, kind.defaults)
    width = fields.whole("hidden_size")
    heads, head = heads_of(fields, width, "num_attention_heads")
    patch, trained_at = length(fields, "patch_size"), length(fields, "image_size")
    side = side_of(fields, image_size or trained_at, patch)
    attention = Attention(
        width, heads, heads, head, qkv_bias=kind.bias, output_bias=kind.bias, causal=False, rotary=kind.rotary
    )
    ffn = Mlp(width, fields.whole("intermediate_size"), kind.gated, kind.bias)
    count = block_count(fields, "num_hidden_layers")
    token = int(kind.class_token)
    known = side_of(fields, trained_at, patch) ** 2
    # where positions are learned: one each, and what the class token is
    learned = 0 if kind is PIXTRAL else known + 2 * token
    pixels = fields.whole("num_channels") * patch * patch
    before = (norm_of(kind.norm, width),) if kind in (CLIP, LLAMA4, PIXTRAL) else ()
    return Encoder(
        width,
        side,
        side * side + token,
        (PatchEmbedding(pixels, width, kind.patch_bias, learned), *before),
        [parts(width, attention, ffn, kind.norm)] * (count if used is None else min(used, count)),
        (norm_of(kind.norm, width),) if kind in (SIGLIP, LLAMA4) else (),
    )


def intern(fields: Fields, remote: bool) -> Encoder:
    """Return InternViT: layer scales, norms of a kind that the config says; `remote` for its first, remote code."""
    fields = with_defaults(fields, INTERN.defaults)
    width, norm = fields.whole("hidden_size"), fields.text("norm_type", default="layer_norm")
    heads, head = heads_of(fields, width, "num_attention_heads")
    kind = {"rms_norm": "rms"}.get(norm, "layer")
    qkv_bias = fields.flag("qkv_bias" if remote else "attention_bias", default=remote)
    qk_norm = fields.flag("qk_normalization" if remote else "use_qk_norm", default=False)
    attention = Attention(
        width,
        heads,
        heads,
        head,
        qkv_bias=qkv_bias,
        output_bias=True,
        qk_norm=qk_norm,
        qk_norm_parameters=2 * width if qk_norm else 0,
        causal=False,
        rotary=False,
    )
    ffn = Mlp(width, fields.whole("intermediate_size"), False, True)
    patch, size = length(fields, "patch_size"), length(fields, "image_size")
    side = side_of(fields, size, patch)
    pixels = fields.whole("num_channels") * patch * patch
    blocks = [parts(width, attention, ffn, kind, scaled=True)] * block_count(fields, "num_hidden_layers")
    return Encoder(width, side, side * side + 1, (PatchEmbedding(pixels, width, True, side * side + 2),), blocks)


def qwen(fields: Fields, image_size: int) -> Encoder:
    """Return the encoder of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and later, whose configs name different things alike.

    Qwen2.5-VL's blocks attend within windows, but for some; its MLPs are gated, its norms RMS. From Qwen3-VL on
    positions are learned too.
    """
    second, newer = fields.family == "qwen2_vl", fields.family not in ("qwen2_vl", "qwen2_5_vl")
    middle = not second and not newer
    width = fields.whole("embed_dim" if second else "hidden_size", default=1280 if second else 1152 if newer else None)
    heads, head = heads_of(with_defaults(fields, {"num_heads": 16}), width, "num_heads")
    patch = length(with_defaults(fields, {"patch_size": 16 if newer else 14}), "patch_size")
    merge, frames = merge_of(fields), fields.whole("temporal_patch_size", default=2, most=64)
    side = side_of(fields, image_size, patch * merge) * merge
    if second:
        intermediate = int(width * fields.number("mlp_ratio", default=4))
    else:
        intermediate = fields.whole("intermediate_size", default=4304 if newer else 3420)
    norm = "rms" if middle else "layer"
    ffn = Mlp(width, intermediate, middle, True)
    whole = Attention(width, heads, heads, head, qkv_bias=True, output_bias=True, causal=False)
    count = block_count(with_defaults(fields, {"depth": 27 if newer else 32}), "depth")
    blocks = [parts(width, whole, ffn, norm)] * count
    if middle:
        window = (length(with_defaults(fields, {"window_size": 112}), "window_size") // (patch * merge) * merge) ** 2
        near = Attention(width, heads, heads, head, chunk=window or None, qkv_bias=True, output_bias=True, causal=False)
        known = with_defaults(fields, {"fullatt_block_indexes": [7, 15, 23, 31]}).wholes("fullatt_block_indexes")
        local = parts(width, near, ffn, norm, name="window_attention")
        blocks = [blocks[index] if index in known else local for index in range(count)]
    pixels = fields.whole("in_channels", "in_chans", default=3) * frames * patch * patch
    learned = fields.whole("num_position_embeddings", default=2304) if newer else 0
    return Encoder(width, side, side * side, (PatchEmbedding(pixels, width, newer, learned),), blocks)


def merge_of(fields: Fields) -> int:
    """Return how many patches along a side are merged into one position of the text."""
    return fields.whole("spatial_merge_size", default=2, most=64)
