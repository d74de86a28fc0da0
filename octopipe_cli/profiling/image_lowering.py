"""Blocks of vision encoders and projectors, lowered to operations on one device."""

from __future__ import annotations

from dataclasses import replace

from octopipe_cli.profiling.image_blocks import Activation, ImageBlock, LayerScale, PatchEmbedding, Regroup
from octopipe_cli.profiling.kernels import elementwise, projection
from octopipe_cli.profiling.operations import Operation
from octopipe_cli.profiling.setting import ELEMENT, Setting


def image_block(block: ImageBlock, setting: Setting) -> Operation:
    """Return the operation of a block on the images' positions that `setting` gives as those of its sequences.

    A patch's pixels need no gradient, so that its projection has no I.
    """
    if isinstance(block, PatchEmbedding):
        rows = setting.sharded_tokens
        whole = projection(setting, "patches", block.inputs, block.width, rows=rows, bias=block.bias)
        return replace(whole, input=())
    size = ELEMENT * setting.sharded_tokens * block.width
    if isinstance(block, LayerScale):
        return elementwise("layer scale", size, size, 4 * size, kept=size)
    if isinstance(block, Activation):
        return elementwise("activation", size, size, 3 * size, kept=size)
    if isinstance(block, Regroup):
        apart = block.patches * size
        return elementwise("regrouping", apart, size if block.average else apart, (size + apart))
    return elementwise("placing", size, size, 2 * size)
