"""What each engine can execute, as named rules on plans: placement, orders, layers (design, section 6).

All is read from the plan alone, so that commands that hold nothing but a plan file can ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from octopipe_cli.cluster import P2P
from octopipe_cli.engines.facts import Facts, ModelFacts, Rule, Violation
from octopipe_cli.engines.renumber import along_model
from octopipe_cli.engines.rules import DEEPSPEED_RULES, MEGATRON_RULES, TORCH_RULES, TORCHTITAN_RULES, no_empty_stage
from octopipe_cli.plan import Engine, Orders, Plan

__all__ = ["ENGINES", "EngineRules", "Violation", "engine_p2p", "why_not", "why_not_model"]


class EngineRules(NamedTuple):
    """What an engine runs: in words, and as rules.

    Attributes
    ----------
    name, placement, orders, backward
        The engine, which rank a stage may sit on, in which orders, and whether the backward may be split.
    description
        What runs the plan, in one line.
    rules
        Functions that yield what they find wrong; one whose `needs` found something is passed over.
    """

    name: Engine
    placement: str
    orders: str
    backward: str
    description: str
    rules: tuple[Rule, ...]


_MEGATRON = ("cyclic, the same number of stages a rank", "1F1B, or interleaved 1F1B in groups of N", "fused")

#: Every engine, the least restricted first.
ENGINES: Final[Mapping[Engine, EngineRules]] = {
    engine.name: engine
    for engine in (
        EngineRules(
            "any", "free", "any", "split or fused", "no engine in particular", (Rule("empty-stage", no_empty_stage),)
        ),
        EngineRules(
            "torch",
            "free",
            "any, the last stage's forwards ascending",
            "split or fused, fused on the first stage",
            "torch.distributed.pipelining with a schedule CSV",
            TORCH_RULES,
        ),
        EngineRules(
            "torchtitan",
            "cyclic, or a V of two stages a rank",
            "any, the last stage's forwards ascending",
            "split or fused, fused on the first stage",
            "torchtitan with module lists and a schedule CSV",
            TORCHTITAN_RULES,
        ),
        EngineRules("megatron", *_MEGATRON, "Megatron-LM's GPTModel with a layout string", MEGATRON_RULES),
        EngineRules("megatron-hybrid", *_MEGATRON, "Megatron-LM's HybridModel with a layer pattern", MEGATRON_RULES),
        EngineRules("deepspeed", "one stage a rank", "1F1B", "fused", "DeepSpeed's PipelineModule", DEEPSPEED_RULES),
    )
}


def why_not(
    plan: Plan, engine: Engine, symbols: Mapping[str, str] | None = None, orders: Orders | None = None
) -> list[Violation]:
    """Return the rules of an engine that a plan breaks, in the engine's order; nothing where the engine runs it.

    Parameters
    ----------
    plan
        A plan that makes a whole (`octopipe_cli.replay` says so).
    engine
        One of `ENGINES`.
    symbols
        Of megatron-hybrid: layer symbols by kind, before those that the kinds' names suggest.
    orders
        The plan's orders, where they have been read already.
    """
    facts = Facts(along_model(plan), engine, symbols or {})
    if orders is not None and plan.rank_order is None:
        facts.orders = orders
    violations: list[Violation] = []
    broken: set[str] = set()
    for rule in ENGINES[engine].rules:
        if broken.isdisjoint(rule.needs):
            found = [Violation(rule.id, path, message) for path, message in rule.function(facts)]
            violations += found
            if found:
                broken.add(rule.id)
    return violations


def why_not_model(layer_kinds: Sequence[str], role_of: Mapping[str, str], engine: Engine) -> list[Violation]:
    """Return the rules on a model's layers that an engine's plans of it would break, whatever their stages.

    Parameters
    ----------
    layer_kinds, role_of
        The kind of every layer, and the role of every kind.
    """
    facts = ModelFacts(layer_kinds, role_of, engine)
    rules = [rule for rule in ENGINES[engine].rules if rule.id in ("layer-order", "kinds")]
    return [Violation(rule.id, path, message) for rule in rules for path, message in rule.function(facts)]


def engine_p2p(engine: Engine, stages_per_rank: int, cluster: P2P) -> P2P:
    """Return how transfers go under an engine: Megatron's 1F1B blocks, its interleaving overlaps, others do as asked.

    Source: `overlap_p2p_comm` in megatron/training/arguments.py, which is switched off without interleaving.
    """
    if engine in ("megatron", "megatron-hybrid"):
        return "blocking" if stages_per_rank == 1 else "overlapped"
    return cluster
