"""Vision-language configs: the encoder and the projector as layers ahead of the text's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import path_of, show
from octopipe_cli.profiling.architecture import Architecture, Backward, Granularity, Images, Layer, VisionPart
from octopipe_cli.profiling.blocks import Block, Linear, Norm
from octopipe_cli.profiling.configs import encoders
from octopipe_cli.profiling.configs.assembly import KindNames
from octopipe_cli.profiling.configs.encoders import Encoder
from octopipe_cli.profiling.configs.families import Config, outer_fields
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.image_blocks import Activation, Placing, Regroup

#: Pixels along a side of an image where the model takes any size and the config names none.
IMAGE_SIZE: Final = 896


@dataclass(frozen=True)
class Tower:
    """Encoder and projector of a vision-language model.

    Parameters
    ----------
    tokens
        Positions of an image among the text's.
    projector
        Its blocks.
    adapter
        Blocks of the encoder that run on as many positions as the projector.
    branches
        By block of the encoder what is projected from its output for a later layer of the language model (DeepStack).
    image_size
        Pixels along a side.
    """

    encoder: Encoder
    tokens: int
    projector: tuple[Block, ...]
    image_size: int
    adapter: tuple[Block, ...] = ()
    branches: Mapping[int, tuple[Block, ...]] | None = None


@dataclass(frozen=True)
class Asked:
    """What a reader of a family gets: the vision config, the config around it, the text's width, the size asked for."""

    vision: Fields
    outer: Fields
    hidden: int
    image_size: int | None

    def fixed_size(self) -> int:
        """Return the size of the images that the config names; another one asked for is an error."""
        size = encoders.length(self.vision, "image_size")
        if self.image_size not in (None, size):
            raise InputError(
                f"a {self.vision.family} takes images of one size",
                path="--image-size",
                found=str(self.image_size),
                expected=str(size),
                remedy="leave --image-size out",
            )
        return size


def with_images(
    config: Config, text: Architecture, granularity: Granularity, image_size: int | None = None
) -> tuple[Architecture, Tower] | None:
    """Return a model with the layers of its vision encoder and projector ahead of the text's; None without one.

    Parameters
    ----------
    text
        What `architecture_of` gives for the config.
    image_size
        Pixels along a side of an image; None: as the config says, else `IMAGE_SIZE`.

    Raises
    ------
    InputError
        Where the encoder is of no family known here, or a field is missing or wrong.
    """
    outer = outer_fields(config.document, config.file)
    vision = outer.below("vision_config")
    if vision is None:
        return None
    family = outer.text("model_type", default="")
    if family not in READERS:
        raise InputError(
            f"the vision encoder of a {show(family)} is not known: its layers can't be told without guessing",
            file=config.file,
            path=path_of((*outer.place, "vision_config")),
            expected="one of " + ", ".join(sorted(READERS)),
            remedy="estimate the language model by itself: --text-only",
        )
    fields = Fields(vision.values, config.file, family, vision.place, outer)
    asked = Asked(fields, Fields(outer.values, config.file, family, outer.place), text.hidden, image_size)
    tower = READERS[family](asked)
    layers = _layers(tower, text.hidden, granularity)
    tied = tuple(tuple(len(layers) + layer for layer in group) for group in text.tied)
    return replace(text, layers=(*layers, *text.layers), tied=tied), tower


def frozen(architecture: Architecture, parts: Sequence[VisionPart]) -> Architecture:
    """Return a model some parts of which are not trained.

    A frozen layer has no W; a layer before which nothing is trained needs no gradient of its input.
    """
    if not parts:
        return architecture
    layers, trained = [], False
    for layer in architecture.layers:
        images = layer.images
        if images is not None:
            kept = images.part in parts
            backward: Backward = ("input" if kept else "full") if trained else ("none" if kept else "weight")
            layer = replace(layer, backward=backward)
            trained = trained or not (kept or images.aside)
        layers.append(layer)
    return replace(architecture, layers=tuple(layers))


def _layers(tower: Tower, hidden: int, granularity: Granularity) -> list[Layer]:
    names, encoder = KindNames(), tower.encoder
    width, positions = encoder.width, encoder.positions
    beside = 0  # elements of an image that travel to a later layer
    plain = Images(width, positions, positions * width)
    layers = [names.layer("vision_embedding", encoder.embedding, "decoder", 1, plain)]
    branches = tower.branches or {}
    for index, parts in enumerate(encoder.blocks):
        blocks = [part.blocks for part in parts]
        if index == len(encoder.blocks) - 1:
            blocks[-1] = (*blocks[-1], *encoder.final)
        images = replace(plain, passed=plain.passed + beside)
        kinds = [part.name for part in parts]
        if granularity == "layer":
            blocks, kinds = [tuple(block for part in blocks for block in part)], ["_".join(kinds)]
        layers += [
            names.layer(f"vision_{kind}", part, "decoder", 1, images) for kind, part in zip(kinds, blocks, strict=True)
        ]
        if index in branches:
            beside += tower.tokens * hidden
            aside = Images(hidden, tower.tokens, plain.passed + beside, "projector", aside=True)
            layers.append(names.layer("vision_deepstack", branches[index], "decoder", 1, aside))
    if tower.adapter:
        adapted = _width_behind(tower.adapter, width)
        images = Images(adapted, tower.tokens, tower.tokens * adapted)
        layers.append(names.layer("vision_adapter", tower.adapter, "decoder", 1, images))
    passed = Images(hidden, tower.tokens, tower.tokens * hidden + beside, "projector")
    return [*layers, names.layer("projector", (*tower.projector, Placing(hidden)), "decoder", 1, passed)]


def _width_behind(blocks: Sequence[Block], width: int) -> int:
    return next((block.outputs for block in reversed(blocks) if isinstance(block, Linear)), width)


def _two(inputs: int, inner: int, hidden: int, bias: bool) -> tuple[Block, ...]:
    """Return two projections with an activation between them."""
    return Linear(inputs, inner, bias), Activation(inner), Linear(inner, hidden, bias)


def _gemma3(asked: Asked) -> Tower:
    """Return Gemma 3's: SigLIP, its patches averaged to so many tokens, a norm, a projection."""
    encoder = encoders.plain(asked.vision, encoders.SIGLIP)
    tokens = asked.outer.whole("mm_tokens_per_image", default=256)
    if encoder.side**2 % tokens:
        asked.outer.fail("mm_tokens_per_image", "not what an image's patches can be averaged to")
    pooled = Regroup(encoder.width, encoder.side**2 // tokens, average=True)
    projector = (pooled, Norm(encoder.width), Linear(encoder.width, asked.hidden))
    return Tower(encoder, tokens, projector, asked.fixed_size())


def _paligemma(asked: Asked) -> Tower:
    encoder = encoders.plain(asked.vision, encoders.SIGLIP)
    return Tower(encoder, encoder.side**2, (Linear(encoder.width, asked.hidden, True),), asked.fixed_size())


def _llama4(asked: Asked) -> Tower:
    """Return Llama 4's: patches shuffled to fewer, an adapter of two projections, a projection; an image is a tile."""
    vision = encoders.with_defaults(asked.vision, encoders.LLAMA4.defaults)
    encoder = encoders.plain(vision, encoders.LLAMA4)
    side = round(1 / vision.number("pixel_shuffle_ratio", default=0.5))
    tokens = _merged(vision, encoder, side, "pixel_shuffle_ratio")
    inner, out = vision.whole("projector_input_dim", default=4096), vision.whole("projector_output_dim", default=4096)
    inputs = encoder.width * side * side
    adapter = (Regroup(encoder.width, side * side), *_two(inputs, inner, out, False), Activation(out))
    return Tower(encoder, tokens, (Linear(out, asked.hidden),), asked.fixed_size(), adapter)


def _qwen(asked: Asked) -> Tower:
    """Return Qwen-VL's: patches merged, two projections; from Qwen3-VL on more of them for the first text layers."""
    size = asked.image_size or IMAGE_SIZE
    encoder = encoders.qwen(asked.vision, size)
    merge = encoders.merge_of(asked.vision)
    group = merge * merge
    inputs, newer = encoder.width * group, asked.vision.family not in ("qwen2_vl", "qwen2_5_vl")
    ahead = Norm(encoder.width, bias=asked.vision.family != "qwen2_5_vl", parts=group)
    out = _two(inputs, inputs, asked.hidden, True)
    merger = (Regroup(encoder.width, group), ahead, *out)
    indices: list[int] = []
    if newer and asked.vision.has("deepstack_visual_indexes"):
        indices = asked.vision.wholes("deepstack_visual_indexes")
    elif asked.vision.family in ("qwen3_vl", "qwen3_vl_moe"):
        indices = [8, 16, 24]
    branches = dict.fromkeys(indices, (Regroup(encoder.width, group), Norm(inputs, bias=True), *out))
    return Tower(encoder, encoder.side**2 // group, merger, size, branches=branches)


def _merged(fields: Fields, encoder: Encoder, merge: int, key: str) -> int:
    """Return how many positions an image has where merge x merge patches become one."""
    if merge < 1 or encoder.side % merge:
        fields.fail(key, "the patches of an image can't be merged evenly", f"a divisor of {encoder.side} along a side")
    return (encoder.side // merge) ** 2


def _mistral3(asked: Asked) -> Tower:
    """Return Mistral 3's: Pixtral's encoder, a norm, patches merged by a projection, two projections."""
    merge = asked.outer.whole("spatial_merge_size", default=2, most=64)
    vision = encoders.with_defaults(asked.vision, {**encoders.PIXTRAL.defaults, "patch_size": 14, "image_size": 1540})
    patch = encoders.length(vision, "patch_size")
    size = asked.image_size or encoders.length(vision, "image_size")
    size = encoders.side_of(vision, size, patch * merge) * patch * merge
    encoder = encoders.plain(vision, encoders.PIXTRAL, image_size=size)
    bias, group = asked.outer.flag("multimodal_projector_bias", default=False), merge * merge
    projector = (
        Norm(encoder.width, parts=group),
        Regroup(encoder.width, group),
        Linear(encoder.width * group, encoder.width),
        *_two(encoder.width, asked.hidden, asked.hidden, bias),
    )
    return Tower(encoder, _merged(asked.outer, encoder, merge, "spatial_merge_size"), projector, size)


#: Encoders that LLaVA's configs hold, and which of their outputs they take by default.
_LLAVA: Final = {
    "clip_vision_model": encoders.CLIP,
    "siglip_vision_model": encoders.SIGLIP,
    "pixtral": encoders.PIXTRAL,
}


def _llava(asked: Asked, layer: int = -2, select: str = "default", extra: bool = False) -> Tower:
    """Return LLaVA's: an encoder of some kind, up to the block whose output is taken, two projections.

    `extra`: a learned vector behind the rows of an image.
    """
    name = asked.vision.text("model_type", default="clip_vision_model", choices=_LLAVA)
    kind = _LLAVA[name]
    llava = {"hidden_size": 1024, "intermediate_size": 4096, "patch_size": 14, "image_size": 336}
    llava |= {"num_hidden_layers": 24, "num_attention_heads": 16}
    vision = encoders.with_defaults(asked.vision, llava if kind is encoders.CLIP else kind.defaults)
    count = encoders.block_count(vision, "num_hidden_layers")
    taken = asked.outer.values.get("vision_feature_layer")
    taken = layer if taken is None else taken
    if isinstance(taken, bool) or not isinstance(taken, int) or not -count <= taken <= count or not taken:
        asked.outer.fail("vision_feature_layer", "not a layer of the encoder", f"a whole number from {-count}, not 0")
    used = count + 1 + taken if taken < 0 else taken
    free = kind is encoders.PIXTRAL
    size = (asked.image_size or encoders.length(vision, "image_size")) if free else None
    encoder = encoders.plain(vision, kind, used, size)
    chosen = asked.outer.text("vision_feature_select_strategy", default=select, choices=("default", "full"))
    tokens = encoder.positions - (1 if chosen == "default" and encoder.positions > encoder.side**2 else 0)
    bias = asked.outer.flag("multimodal_projector_bias", default=True)
    projector = _two(encoder.width, asked.hidden, asked.hidden, bias)
    if extra:
        projector = (*projector, Norm(asked.hidden))
    seen = replace(asked, vision=vision)
    return Tower(encoder, tokens, projector, size or seen.fixed_size())


def _internvl(asked: Asked, remote: bool = False) -> Tower:
    """Return InternVL's: InternViT, patches shuffled to fewer, a norm, two projections; an image is a tile."""
    encoder = encoders.intern(asked.vision, remote)
    merge = round(1 / asked.outer.number("downsample_ratio", default=0.5))
    tokens = _merged(asked.outer, encoder, merge, "downsample_ratio")
    inputs = encoder.width * merge * merge
    projector = (
        Regroup(encoder.width, merge * merge),
        Norm(inputs, bias=True),
        *_two(inputs, asked.hidden, asked.hidden, True),
    )
    vision = encoders.with_defaults(asked.vision, encoders.INTERN.defaults)
    return Tower(encoder, tokens, projector, replace(asked, vision=vision).fixed_size())


#: Reader by the ``model_type`` of the config around.
READERS: Final[Mapping[str, Callable[[Asked], Tower]]] = {
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "llama4": _llama4,
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen),
    "mistral3": _mistral3,
    "llava": _llava,
    "llava_next": lambda asked: _llava(asked, extra=True),
    "llava_onevision": lambda asked: _llava(asked, layer=-1, select="full", extra=True),
    "internvl": _internvl,
    "internvl_chat": lambda asked: _internvl(asked, remote=True),
}
