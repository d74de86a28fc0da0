"""Rules of the plan's own shape: inputs, stages, placement, orders."""

from __future__ import annotations

from collections.abc import Iterable

from octopipe_cli.formats import show
from octopipe_cli.verify.case import FUSED, SPLIT, Case, Found
from octopipe_cli.verify.replay import KIND_BITS


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as words, the tail of a long list counted only."""
    every = list(numbers)
    more = f" and {len(every) - 8} more" if len(every) > 8 else ""
    return ", ".join(map(str, every[:8])) + more


def digests_match(case: Case) -> Found:
    """Digests of the profile and the cluster the plan was made from."""
    for name, said, loaded in (
        ("profile", case.plan.inputs.profile.digest, case.profile.digest),
        ("cluster", case.plan.inputs.cluster.digest, case.cluster.digest),
    ):
        if said != loaded:
            yield f"$.inputs.{name}.digest", f"made from another {name}: found {said}, expected {loaded}"


def names_match(case: Case) -> Found:
    """Names of the profile and the cluster."""
    for name, said, value in (
        ("profile", case.plan.inputs.profile.name, case.profile.value.name),
        ("cluster", case.plan.inputs.cluster.name, case.cluster.value.name),
    ):
        if said != value:
            yield f"$.inputs.{name}.name", f"found {show(said)}, expected {show(value)}"


def hardware_has_times(case: Case) -> Found:
    """The profile has times for all hardware of the cluster."""
    for hardware in dict.fromkeys(member.hardware for member in case.members):
        for name, kind in case.profile.value.kinds.items():
            if hardware not in kind.times:
                yield "$.inputs", f"the profile's kind {show(name)} has no times for the cluster's {show(hardware)}"


def ranks_counted(case: Case) -> Found:
    """One record, one prediction and one order for every rank, in order."""
    expected = len(case.members)
    plan = case.plan
    for path, found in (
        ("$.ranks", len(plan.ranks)),
        ("$.predicted.ranks", len(plan.predicted.ranks)),
        ("$.orders", len(plan.orders)),
    ):
        if found != expected:
            yield path, f"found {found}, expected {expected}, one for each rank of the cluster"
    for r, rank in enumerate(plan.predicted.ranks):
        if rank.rank != r:
            yield f"$.predicted.ranks[{r}].rank", f"found {rank.rank}, expected {r}"


def stages_cover(case: Case) -> Found:
    """Stages in model order, every layer in exactly one."""
    at = 0
    for s, stage in enumerate(case.plan.stages):
        first, stop = stage.layers
        if first != at or stop < first:
            yield f"$.stages[{s}].layers", f"found [{first}, {stop}], expected a start at {at} and an end not before it"
        at = stop
    if at != len(case.kinds):
        yield "$.stages", f"the last stage ends at layer {at}, expected {len(case.kinds)}, the model's end"


def stage_ranks_exist(case: Case) -> Found:
    """Every stage on a rank of the cluster."""
    for s, stage in enumerate(case.plan.stages):
        if stage.rank >= len(case.members):
            yield f"$.stages[{s}].rank", f"found {stage.rank}, expected 0 to {len(case.members) - 1}"


def stages_hold_layers(case: Case) -> Found:
    """No stage without layers, but under the megatron engines."""
    for s, stage in enumerate(case.plan.stages):
        if stage.layers[0] == stage.layers[1] and not case.megatron:
            yield f"$.stages[{s}].layers", f"no layers, which engine {case.plan.request.engine} does not take"


def ranks_hold_stages(case: Case) -> Found:
    """At least one stage on every rank."""
    for rank in sorted(set(range(len(case.members))) - {stage.rank for stage in case.plan.stages}):
        yield "$.stages", f"rank {rank} holds no stage, expected at least one"


def same_rank_kept(case: Case) -> Found:
    """The profile's same_rank groups each on one rank."""
    for group in case.profile.value.rules.same_rank:
        ranks = sorted({case.rank_of_layer[layer] for layer in group})
        if len(ranks) > 1:
            yield "$.stages", f"layers {listed(group)} must share a rank, found on ranks {listed(ranks)}"


def cuts_allowed(case: Case) -> Found:
    """No cut after a layer of the profile's no_cut_after."""
    forbidden = set(case.profile.value.rules.no_cut_after)
    for s, stage in enumerate(case.plan.stages[:-1]):
        if stage.layers[1] - 1 in forbidden and stage.layers[0] < stage.layers[1]:
            yield f"$.stages[{s}].layers", f"a cut after layer {stage.layers[1] - 1}, which the profile forbids"


def tokens_are_actions(case: Case) -> Found:
    """Every token of the orders an action."""
    for rank, line, token in case.tokens[1]:
        expected = "stage, F, I, W or B, micro-batch: 3I7"
        yield f"$.orders[{rank}][{line}]", f"found {show(token)}, expected {expected}"


def actions_in_range(case: Case) -> Found:
    """Actions of stages and micro-batches that exist."""
    stages, microbatches = len(case.plan.stages), case.num_microbatches
    for rank, actions in enumerate(case.orders):
        wrong = [action for action in actions if action[0] >= stages or action[2] >= microbatches]
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            found = "{}{}{}".format(*wrong[0]) + more
            yield (
                f"$.orders[{rank}]",
                f"found {found}, expected stages below {stages}, micro-batches below {microbatches}",
            )


def actions_on_own_rank(case: Case) -> Found:
    """Actions in the order of their stage's rank."""
    for rank, actions in enumerate(case.orders):
        for stage in sorted({stage for stage, _, _ in actions}):
            owner = case.plan.stages[stage].rank
            if owner != rank:
                yield f"$.orders[{rank}]", f"found actions of stage {stage}, expected in the order of rank {owner}"


def actions_complete(case: Case) -> Found:
    """For every stage and micro-batch one F and either one B or one I and one W."""
    for rank, actions in enumerate(case.orders):
        if len(set(actions)) < len(actions):
            seen = set()
            twice = next(action for action in actions if action in seen or seen.add(action))  # type: ignore[func-returns-value]
            yield f"$.orders[{rank}]", "found {}{}{} twice, expected once".format(*twice)
    count = case.num_microbatches
    wrong: dict[int, list[int]] = {}
    present = [0] * len(case.plan.stages)
    for unit, met in case.kinds_met.items():
        present[unit // count] += 1
        if met not in (FUSED, SPLIT):
            wrong.setdefault(unit // count, []).append(unit % count)
    for stage, number in enumerate(present):
        if number < count:  # the first without any action is found after at most `number` steps
            missing = next(m for m in range(count) if stage * count + m not in case.kinds_met)
            wrong.setdefault(stage, []).append(missing)
        if stage in wrong:
            microbatch = min(wrong[stage])
            met = case.kinds_met.get(stage * count + microbatch, 0)
            found = " ".join(kind for kind, bit in KIND_BITS.items() if met & bit) or "nothing"
            total = len(wrong[stage]) + max(0, count - number - 1)
            more = f" ({total - 1} more micro-batches are wrong)" if total > 1 else ""
            expected = "F and either B or I and W"
            message = f"stage {stage}, micro-batch {microbatch}: found {found}, expected {expected}{more}"
            yield f"$.orders[{case.plan.stages[stage].rank}]", message


def unsplittable_stay_whole(case: Case) -> Found:
    """Stages with a layer that may not split use B alone."""
    for s in case.split_stages:
        whole = sorted({name for name in case.kinds[slice(*case.plan.stages[s].layers)] if not _splits(case, name)})
        if whole:
            path = f"$.orders[{case.plan.stages[s].rank}]"
            yield path, f"stage {s} holds {show(whole[0])}, which may not split: found I or W, expected B"


def _splits(case: Case, name: str) -> bool:
    return case.profile.value.kinds[name].splittable
