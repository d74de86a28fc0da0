"""What is asked of a model's vision encoder: images, their size, what is frozen; what the profile says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document
from octopipe_cli.profiling.architecture import Architecture, Granularity
from octopipe_cli.profiling.configs.families import Config
from octopipe_cli.profiling.configs.vision import frozen, with_images


def seeing(
    config: Config, text: Architecture, granularity: Granularity, asked: Mapping[str, Any], *, text_only: bool
) -> tuple[Architecture, Document]:
    """Return a model with its vision layers, where its config has some, and what its profile's provenance says of them.

    Parameters
    ----------
    asked
        By option what was given, where anything was: ``--images`` of a micro-batch, ``--image-size``, parts that are
        ``--frozen``.
    text_only
        Whether vision layers are left out.

    Raises
    ------
    InputError
        Where the encoder is not known, or something is asked of one that is not there.
    """
    found = None if text_only else with_images(config, text, granularity, asked.get("--image-size"))
    if found is None:
        for option, value in asked.items():
            if value:
                why = "which --text-only leaves out" if text_only else "and the config has no vision_config"
                raise InputError(f"{option} is for a vision encoder, {why}", file=config.file)
        return text, {"parts": "text only"} if text_only else {}
    architecture, tower = found
    parts = sorted(set(asked.get("--frozen") or ()))
    says = {
        "images_a_microbatch": asked.get("--images") or 1,
        "image_size": tower.image_size,
        "positions_an_image": tower.encoder.positions,
        "tokens_an_image": tower.tokens,
        "frozen": parts,
    }
    return frozen(architecture, parts), {"vision": says}
