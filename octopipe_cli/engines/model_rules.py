"""Megatron's rules on what layers a model has and where its ends sit."""

from __future__ import annotations

from itertools import pairwise

from octopipe_cli.engines.facts import Facts, Found
from octopipe_cli.engines.symbols import layer_symbols, whole_layer
from octopipe_cli.formats import show

_ORDER = ("embedding", "decoder", "mtp", "head")


def layers_in_order(facts: Facts) -> Found:
    """One embedding, the decoder layers, the MTP depths, one head, in this order."""
    roles = [(role, number) for number, stage in enumerate(facts.roles) for role in stage]
    for (before, _), (after, number) in pairwise(roles):
        if _ORDER.index(after) < _ORDER.index(before):
            yield (
                f"$.stages[{number}]",
                f"a layer of role {after} after one of role {before}, and it must go before",
            )
            return
    for role in ("embedding", "head"):
        count = sum(each == role for each, _ in roles)
        if count != 1:
            yield (
                "$.kinds",
                f"{count} layers of role {role}, expected one: the model of Megatron's has one, give the kind of "
                f"layer that is it the role {role} in the profile",
            )


def embedding_first(facts: Facts) -> Found:
    """The embedding is in the first stage: Megatron builds it there whatever a layout says."""
    stage = facts.stages_with("embedding")[0]
    if stage:
        yield f"$.stages[{stage}]", f"the embedding is in stage {stage}, and must be in stage 0"


def head_last(facts: Facts) -> Found:
    """The head is in the last stage: Megatron builds it there whatever a layout says."""
    stage, last = facts.stages_with("head")[0], facts.num_stages - 1
    if stage != last:
        yield f"$.stages[{stage}]", f"the head is in stage {stage}, and must be in the last one, {last}"


def mtp_together(facts: Facts) -> Found:
    """All MTP depths are in one stage: the last chunk of a rank that is not the first; the last stage in hybrids."""
    stages, last, ranks = facts.stages_with("mtp"), facts.num_stages - 1, facts.num_ranks
    if not stages:
        return
    path = f"$.stages[{stages[0]}]"
    if facts.engine == "megatron-hybrid":
        if stages != [last]:
            yield path, f"MTP layers are in stage {stages[0]}, and hybrid models have all of them in the last, {last}"
    elif len(stages) > 1:
        yield path, f"MTP layers are in stages {', '.join(map(str, stages))}, and must be together in one"
    elif stages[0] < facts.num_stages - ranks:
        yield path, f"MTP layers are in stage {stages[0]}, and must be in the last chunk of their rank"
    elif ranks > 1 and stages[0] % ranks == 0:
        yield path, f"MTP layers are in stage {stages[0]}, on rank 0, and must be on another rank"


def kinds_have_symbols(facts: Facts) -> Found:
    """Every layer is one of those the engine's model is made of."""
    used = dict.fromkeys(kind for kinds in facts.kinds for kind in kinds)
    for kind in used:
        role = facts.role_of.get(kind, "decoder")
        if role in ("embedding", "head"):
            continue
        if facts.engine == "megatron-hybrid":
            if layer_symbols(kind, facts.symbols) is None:
                what = "an MTP depth" if role == "mtp" else "a layer"
                yield (
                    "$.kinds",
                    f"nothing says which symbols stand for {what} of kind {show(kind)} in a hybrid pattern: "
                    f"name them, as in --symbol {kind}=*-",
                )
        elif role == "decoder" and not whole_layer(kind):
            yield (
                "$.kinds",
                f"layers of kind {show(kind)} are no whole transformer layers, which is all that GPTModel cuts apart: "
                "megatron-hybrid takes such layers",
            )
