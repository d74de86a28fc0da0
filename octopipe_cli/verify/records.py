"""Rules of what a plan repeats from its profile and cluster, and of what was asked for."""

from __future__ import annotations

from itertools import islice
from typing import Final

from octopipe_cli.formats import show
from octopipe_cli.plan import TransferTimes, content_digest
from octopipe_cli.profile import Training, expand, model_work
from octopipe_cli.verify.case import Case, Found
from octopipe_cli.verify.structure import listed


def rank_records_match(case: Case) -> Found:
    """Hardware, node, memory limit and step time of every rank."""
    for r, (said, member, step_ns) in enumerate(zip(case.plan.ranks, case.members, case.step_ns, strict=True)):
        for key, found, expected in (
            ("hardware", said.hardware, member.hardware),
            ("node", said.node, member.node),
            ("memory_limit_bytes", said.memory_limit_bytes, member.memory_limit_bytes),
            ("step_ns", said.step_ns, step_ns),
        ):
            if found != expected:
                yield f"$.ranks[{r}].{key}", f"found {show(found)}, expected {show(expected)}"


def kind_roles_match(case: Case) -> Found:
    """The role of every kind a layer has."""
    kinds, said = case.profile.value.kinds, case.plan.kinds
    for name in dict.fromkeys(case.kinds):
        if said.get(name) != kinds[name].role:
            yield "$.kinds", f"{show(name)}: found {show(said.get(name))}, expected {show(kinds[name].role)}"
    used = set(case.kinds)
    for name, role in said.items():
        if name not in used and (name not in kinds or kinds[name].role != role):
            expected = show(kinds[name].role) if name in kinds else "no such kind"
            yield "$.kinds", f"{show(name)}: found {show(role)}, expected {expected}"


def stage_kinds_match(case: Case) -> Found:
    """The kinds of every stage's layers."""
    for s, stage in enumerate(case.plan.stages):
        expected = list(case.kinds[slice(*stage.layers)])
        found = list(islice(expand(stage.kinds), len(expected) + 1))  # groups may write out to far more
        if found != expected:
            yield f"$.stages[{s}].kinds", f"found {show(stage.kinds)[:60]}, expected {show(expected)}"


def action_times_match(case: Case) -> Found:
    """The times of every stage's actions; I and W only where it may split."""
    for s, (stage, facts) in enumerate(zip(case.plan.stages, case.stages, strict=True)):
        for kind, time in facts.action_ns.items():
            expected = time if facts.may_split or kind in "FB" else None
            found = stage.action_ns.get(kind)  # type: ignore[call-overload]
            if found != expected:
                words = "none, as the stage may not split" if expected is None else f"{expected} ns"
                yield f"$.stages[{s}].action_ns", f"{kind}: found {show(found)}, expected {words}"


def transfer_times_match(case: Case) -> Found:
    """The transfer times of every stage, 0 at the ends."""
    for s, (stage, facts) in enumerate(zip(case.plan.stages, case.stages, strict=True)):
        expected = TransferTimes(forward=facts.forward_ns, backward=facts.backward_ns)
        for way in ("forward", "backward"):
            found, right = getattr(stage.transfer_ns, way), getattr(expected, way)
            if found != right:
                yield f"$.stages[{s}].transfer_ns.{way}", f"found {found} ns, expected {right} ns"


def stage_bytes_match(case: Case) -> Found:
    """The bytes of every stage, tied copies in the state."""
    for s, (stage, facts) in enumerate(zip(case.plan.stages, case.stages, strict=True)):
        for key in facts.bytes.__struct_fields__:
            found, expected = getattr(stage.bytes, key), getattr(facts.bytes, key)
            if found != expected:
                yield f"$.stages[{s}].bytes.{key}", f"found {found}, expected {expected}"


def training_matches(case: Case) -> Found:
    """What the plan says of its training run: the profile's degrees and tokens, and FLOPs where the profile has them.

    Plans of older versions say nothing.
    """
    said, profile = case.plan.training, case.profile.value
    if said is None:
        return
    for key in Training.__struct_fields__:
        found, expected = getattr(said, key), getattr(profile.training, key)
        if found != expected:
            yield f"$.training.{key}", f"found {show(found)}, expected {show(expected)}"
    work = model_work(profile)
    flops, peaks = (None, None) if work is None else (work.flops, work.peak_tflops)
    for key, found, expected in (("model_flops", said.model_flops, flops), ("peak_tflops", said.peak_tflops, peaks)):
        if found != expected:
            yield f"$.training.{key}", f"found {show(found)}, expected {show(expected)}"


def p2p_matches(case: Case) -> Found:
    """The cluster's way to transfer; Megatron's own under its engines: its 1F1B blocks, its interleaving overlaps."""
    expected, why = case.cluster.value.p2p, "as in the cluster"
    if case.megatron and len(case.plan.stages) % len(case.members):
        return  # neither of the two: the placement is wrong
    if case.megatron and case.one_stage_a_rank:
        expected, why = "blocking", "Megatron's 1F1B blocks"
    elif case.megatron:
        expected, why = "overlapped", "Megatron's interleaved 1F1B overlaps"
    if case.plan.p2p != expected:
        yield "$.p2p", f"found {show(case.plan.p2p)}, expected {show(expected)} ({why})"


def recompute_as_requested(case: Case) -> Found:
    """Recomputation where the request says none or full."""
    wanted = case.plan.request.recompute
    for s, stage in enumerate(case.plan.stages):
        if wanted != "auto" and stage.recompute != (wanted == "full"):
            found = show(stage.recompute)
            yield f"$.stages[{s}].recompute", f"found {found}, expected {show(wanted == 'full')} (requested: {wanted})"


def backward_as_requested(case: Case) -> Found:
    """B alone where a fused backward was requested."""
    if case.plan.request.backward == "fused":
        for s in case.split_stages:
            path = f"$.orders[{case.plan.stages[s].rank}]"
            yield path, f"stage {s}: found I or W, expected B alone (requested: fused)"


def cyclic(case: Case) -> list[int]:
    """Return the cyclic placement: stage i on rank i mod P."""
    return [s % len(case.members) for s in range(len(case.plan.stages))]


def back_and_forth(case: Case) -> list[int]:
    """Return the V placement: 0 .. P-1, P-1 .. 0, and so on."""
    ranks = len(case.members)
    turns = [*range(ranks), *reversed(range(ranks))]
    return [turns[s % len(turns)] for s in range(len(case.plan.stages))]


def _misplaced(case: Case, expected: list[int], why: str) -> Found:
    for s, stage in enumerate(case.plan.stages):
        wanted = case.rank_at(expected[s])
        if stage.rank != wanted:
            yield f"$.stages[{s}].rank", f"found {stage.rank}, expected {wanted} ({why})"


def rank_order_is_one(case: Case) -> Found:
    """Every rank once in the order along the model, and none but where it was asked for."""
    order = case.plan.rank_order
    if order is not None and sorted(order) != list(range(len(case.members))):
        yield "$.rank_order", f"found {show(list(order))}, expected each of {len(case.members)} ranks once"
    if order is not None and not case.plan.request.reorder_ranks:
        yield "$.rank_order", "found an order of ranks, expected none (not requested)"


def placement_as_requested(case: Case) -> Found:
    """Stages placed cyclic or in a V where that was requested."""
    wanted = case.plan.request.placement
    if wanted != "free":
        yield from _misplaced(
            case, cyclic(case) if wanted == "cyclic" else back_and_forth(case), f"requested: {wanted}"
        )


def max_stages_kept(case: Case) -> Found:
    """No rank with more stages than requested."""
    most = case.plan.request.max_stages_per_rank
    counts = [0] * len(case.members)
    for stage in case.plan.stages:
        counts[stage.rank] += 1
    for rank, count in enumerate(counts):
        if most is not None and count > most:
            yield "$.stages", f"rank {rank} holds {count} stages, expected at most {most} (requested)"


def engine_takes_placement(case: Case) -> Found:
    """A placement the engine can run."""
    engine, ranks = case.plan.request.engine, len(case.members)
    if engine in ("any", "torch"):
        return
    stages = len(case.plan.stages)
    if engine == "deepspeed" and stages != ranks:
        yield "$.stages", f"found {stages} stages, expected {ranks}: engine deepspeed runs one a rank"
    elif case.megatron and stages % ranks:
        yield "$.stages", f"found {stages} stages on {ranks} ranks, expected the same number on each (engine {engine})"
    elif engine == "torchtitan" and stages == 2 * ranks and case.plan.stages[ranks].rank == case.rank_at(ranks - 1):
        yield from _misplaced(case, back_and_forth(case), f"a V, for engine {engine}")
    else:
        yield from _misplaced(case, cyclic(case), f"cyclic, for engine {engine}")


#: What the engines' own rules say of orders, and of which stages hold what; the rest has rules of its own here.
_ORDER_RULES: Final = ("group-size", "order", "last-forwards", "first-whole", "recomputed-whole")
_STAGE_RULES: Final = ("embedding", "head", "mtp", "recompute")


def engine_runs_orders(case: Case) -> Found:
    """Orders that the engine runs."""
    for rule, path, message in case.engine_violations:
        if rule in _ORDER_RULES:
            yield path, f"{message} (engine {case.plan.request.engine})"


def engine_takes_stages(case: Case) -> Found:
    """The ends of the model in the stages where the engine builds them, recomputation as it can."""
    for rule, path, message in case.engine_violations:
        if rule in _STAGE_RULES:
            yield path, f"{message} (engine {case.plan.request.engine})"


def engine_takes_backward(case: Case) -> Found:
    """B alone under the engines that cannot split it."""
    if (case.megatron or case.plan.request.engine == "deepspeed") and case.split_stages:
        stages = listed(case.split_stages)
        yield "$.orders", f"found I or W at stages {stages}, expected B alone (engine {case.plan.request.engine})"


def content_is_sealed(case: Case) -> Found:
    """A content digest, where there is one, that is the content's own."""
    said = case.plan.content_digest
    if said is not None and said != content_digest(case.plan):
        yield "$.content_digest", f"found {said}, expected {content_digest(case.plan)}: the plan was edited by hand"
