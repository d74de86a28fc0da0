"""Megatron-LM's HybridModel: a layer pattern with the cuts in it."""

from __future__ import annotations

from collections.abc import Mapping

from octopipe_cli.engines.hybrid_pattern import Pattern, pattern_problems, read_pattern, write_pattern
from octopipe_cli.engines.symbols import NAMES, layer_symbols
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.export import Options
from octopipe_cli.export.megatron import heading, order_flags, recompute_flags, size_flags
from octopipe_cli.export.refusal import check_runs
from octopipe_cli.formats import Loaded, did_you_mean, show
from octopipe_cli.plan import Plan
from octopipe_cli.profile import expand
from octopipe_cli.words import visible


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the hybrid pattern of a plan with the flags it needs; the symbols that were read off names are told."""
    check_symbols(plan, options.symbols)
    check_runs(plan, "megatron-hybrid", options.symbols)
    symbols = {kind: layer_symbols(kind, options.symbols) or "" for kind in _used(plan.value)}
    pattern = _pattern(plan.value, symbols)
    for problem in pattern_problems(pattern, len(plan.value.ranks)):
        raise InvalidPlanError(
            f"megatron-hybrid cannot run this plan, rule {problem.rule}: {problem.message}",
            file=plan.file,
            path="$.kinds",
            remedy="name other symbols with --symbol",
        )
    text = write_pattern(*pattern)
    assert read_pattern(text) == pattern
    told = ", ".join(f"{visible(kind)} {symbols[kind]}" for kind in _told(plan.value))
    flags = [*size_flags(plan.value), ("hybrid-layer-pattern", f"'{text}'"), *order_flags(plan.value)]
    return "\n".join(
        [
            *heading(plan.value, "HybridModel (pretrain_hybrid.py)"),
            f"# Symbols of kinds: {told}; where one means another, --symbol says so.",
            "# Older releases call the pattern --hybrid-override-pattern, and take no | in it.",
            *(f"--{flag} {value}" for flag, value in flags),
            *(["--mtp-num-layers " + str(len(pattern.mtp))] if pattern.mtp else []),
            *recompute_flags(plan.value),
            "",
        ]
    )


def check_symbols(plan: Loaded[Plan], symbols: Mapping[str, str]) -> None:
    """Raise InputError where symbols are named for a kind that is none of the plan's, or are none."""
    for kind, text in symbols.items():
        if kind not in plan.value.kinds:
            raise InputError(
                f"no kind {show(kind)}",
                file=plan.file,
                path="--symbol",
                remedy=did_you_mean(kind, plan.value.kinds, "`octopipe show` lists the kinds"),
            )
        if not set(text) <= set(NAMES):
            expected = ", ".join(f"{symbol} {name}" for symbol, name in NAMES.items())
            raise InputError(
                f"no symbols of layers: {show(text)}", path="--symbol", expected=f"one or more of {expected}"
            )


def _used(plan: Plan) -> list[str]:
    return list(dict.fromkeys(kind for stage in plan.stages for kind in expand(stage.kinds)))


def _told(plan: Plan) -> list[str]:
    return [kind for kind in _used(plan) if plan.kinds.get(kind, "decoder") in ("decoder", "mtp")]


def _pattern(plan: Plan, symbols: dict[str, str]) -> Pattern:
    """Return the pattern: a stage of decoder layers' symbols each, then the MTP depths."""
    layers = [[(kind, plan.kinds.get(kind, "decoder")) for kind in expand(stage.kinds)] for stage in plan.stages]
    stages = tuple("".join(symbols[kind] for kind, role in stage if role == "decoder") for stage in layers)
    return Pattern(stages, tuple(symbols[kind] for stage in layers for kind, role in stage if role == "mtp"))
