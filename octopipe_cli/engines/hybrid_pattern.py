"""Megatron-LM's ``--hybrid-layer-pattern``: one symbol a layer, ``|`` between stages, ``/`` before each MTP depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from octopipe_cli.engines.megatron_layout import LayoutSyntaxError, Problem
from octopipe_cli.engines.symbols import NAMES
from octopipe_cli.formats import show


class Pattern(NamedTuple):
    """A hybrid pattern: the symbols of each stage, and of each MTP depth; `cut` where ``|`` stands in it."""

    stages: tuple[str, ...]
    mtp: tuple[str, ...] = ()

    @property
    def cut(self) -> bool:
        """Whether the pattern itself cuts the model."""
        return len(self.stages) > 1

    @property
    def num_layers(self) -> int:
        """Layers without the MTP depths: one a symbol."""
        return sum(map(len, self.stages))

    def on_ranks(self, num_ranks: int) -> tuple[str, ...]:
        """Return the symbols of each stage on that many ranks: a pattern without cuts is split evenly."""
        if self.cut or self.num_layers % num_ranks:
            return self.stages
        size = self.num_layers // num_ranks
        return tuple(self.stages[0][rank * size : (rank + 1) * size] for rank in range(num_ranks))


def read_pattern(text: str) -> Pattern:
    """Return the stages and MTP depths of a pattern; raises LayoutSyntaxError where it is none."""
    main, *mtp = text.split("/")
    for depth in mtp:
        if "|" in depth:
            raise LayoutSyntaxError("mtp-cut", "| within an MTP depth: it is not cut")
        if not depth:
            raise LayoutSyntaxError("mtp-empty", "an MTP depth without a layer")
    for character in "".join([*main.split("|"), *mtp]):
        if character not in NAMES:
            raise LayoutSyntaxError("symbol", f"{show(character)} is none of the symbols {' '.join(NAMES)}, | and /")
    return Pattern(tuple(main.split("|")), tuple(mtp))


def pattern_problems(
    pattern: Pattern, num_ranks: int, num_layers: int | None = None, mtp_layers: int | None = None
) -> Iterator[Problem]:
    """Yield what is wrong with a pattern on that many ranks; layers and MTP depths are compared where given."""
    stages = len(pattern.stages)
    if not pattern.num_layers:
        yield Problem("layers", "no layer at all")
    if pattern.cut and stages % num_ranks:
        yield Problem("stages", f"{stages} stages are not the same number on each of {num_ranks} ranks")
    if not pattern.cut and pattern.num_layers % num_ranks:
        yield Problem("stages", f"without | the {pattern.num_layers} layers are split evenly on {num_ranks} ranks")
    if len(set(pattern.mtp)) > 1:
        yield Problem("mtp-alike", f"MTP depths that differ: {', '.join(map(show, dict.fromkeys(pattern.mtp)))}")
    symbols = "".join([*pattern.stages, *pattern.mtp])
    if "*" in symbols and ("D" in symbols or "+" in symbols):
        yield Problem("attention", f"* beside {'D' if 'D' in symbols else '+'}: a model has one sort of attention")
    for what, rule, found, expected in (
        ("layers", "layers", pattern.num_layers, num_layers),
        ("MTP depths", "mtp-layers", len(pattern.mtp), mtp_layers),
    ):
        if expected is not None and found != expected:
            yield Problem(rule, f"{found} {what}, expected {expected}")


def write_pattern(stages: Sequence[str], mtp: Sequence[str] = ()) -> str:
    """Return stages and MTP depths, symbols each, as a pattern; one stage alone has no ``|``."""
    return "/".join(["|".join(stages), *mtp])
