"""Which modules of a model a stage holds: layers numbered as the engine's model numbers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from octopipe_cli.engines.symbols import layer_symbols
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded, show
from octopipe_cli.plan import Plan
from octopipe_cli.profile import expand

#: Symbols of what mixes positions, and of what stands behind it in a layer of the model.
MIXERS: Final = ("M", "G", "*", "D", "+")
FEED_FORWARD: Final = ("-", "E")


class Names(NamedTuple):
    """How an engine calls the modules of a model; `everywhere` are those that every stage needs."""

    engine: str
    embedding: str
    layer: str
    head: tuple[str, ...]
    everywhere: tuple[str, ...] = ()


def model_parts(plan: Loaded[Plan], names: Names) -> list[list[str]]:
    """Return the names of each stage's modules.

    Decoder layers count from 0. Where mixers and feed-forward layers (kinds such as attention and mlp) take turns
    from the first decoder layer to the last, two of them are one layer of the model, as in Llama and Jamba; else
    every one is a layer of its own, as in Nemotron-H.

    Raises
    ------
    InvalidPlanError
        Where a cut goes through a layer of the model, a layer is an MTP depth, or embedding and head are not where
        models have them.
    """
    layers = list(_layers(plan.value))
    _check_ends(plan, [role for _, role, _ in layers])
    parts: list[list[str]] = [list(names.everywhere) for _ in plan.value.stages]
    halves = _take_turns([kind for _, role, kind in layers if role == "decoder"])
    number, open_stage = -1, None  # the stage in which a mixer waits for its feed-forward layer
    for stage, role, kind in layers:
        if role == "mtp":
            raise InvalidPlanError(
                f"{names.engine} has no MTP under pipeline parallelism: stage {stage} holds an MTP depth",
                file=plan.file,
                path=f"$.stages[{stage}]",
                remedy="plan for a profile without MTP depths, or for megatron",
            )
        if role == "embedding":
            parts[stage].insert(0, names.embedding)
        elif role == "head":
            parts[stage] += names.head
        elif halves and open_stage is not None:
            if open_stage != stage:
                raise InvalidPlanError(
                    f"the plan cuts through layer {number} of the model, which {names.engine} cannot: "
                    f"its {show(kind)} is in stage {stage}, what is before it in stage {open_stage}",
                    file=plan.file,
                    path=f"$.stages[{stage}].layers",
                    remedy="plan with a profile of whole layers (`octopipe profile estimate --granularity layer`)",
                )
            open_stage = None
        else:
            number += 1
            parts[stage].insert(len(parts[stage]) - len(names.everywhere), names.layer.format(number))
            open_stage = stage if halves else None
    return parts


def _layers(plan: Plan) -> Iterator[tuple[int, str, str]]:
    """Yield stage, role and kind of every layer."""
    for number, stage in enumerate(plan.stages):
        for kind in expand(stage.kinds):
            yield number, plan.kinds.get(kind, "decoder"), kind


def _take_turns(kinds: list[str]) -> bool:
    """Return whether every other layer, from the first, is a mixer and those behind them are feed-forward layers."""
    symbols = [layer_symbols(kind, {}) for kind in kinds]
    mixers, feed_forward = symbols[::2], symbols[1::2]
    in_pairs = len(mixers) == len(feed_forward) > 0
    return in_pairs and all(one in MIXERS for one in mixers) and all(one in FEED_FORWARD for one in feed_forward)


def _check_ends(plan: Loaded[Plan], roles: list[str]) -> None:
    """Raise InvalidPlanError where there is not one embedding at the beginning and one head at the end."""
    for role, place, where in (("embedding", 0, "first"), ("head", -1, "last")):
        if roles.count(role) != 1 or roles[place] != role:
            raise InvalidPlanError(
                f"the {where} layer, and no other, must have the role {role}",
                file=plan.file,
                path="$.kinds",
                found=f"{roles.count(role)} of that role, the {where} layer is {roles[place]}",
                remedy=f'give the kind of the {where} layer the role "{role}" in the profile',
            )
