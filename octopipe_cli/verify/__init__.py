"""The oracle: judges a plan against its profile and cluster, one function a rule, apart from all that makes plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.profile import Profile
from octopipe_cli.verify import communication, outcome, records, structure
from octopipe_cli.verify.case import Case, Found

__all__ = ["RULES", "Finding", "Rule", "check", "verify"]


class Finding(NamedTuple):
    """A rule a plan breaks: the rule's id, the JSON path in the plan, found and expected in words."""

    rule: str
    path: str
    message: str


class Rule(NamedTuple):
    """A rule: its stable id, what it asks for in one line, its function, the rules without which it has no meaning."""

    id: str
    description: str
    function: Callable[[Case], Found]
    needs: tuple[str, ...] = ()


#: Without these a stage has no layers or no rank to take costs from.
_STAGES: Final = ("hardware-times", "rank-count", "stage-cover", "rank-range")
_TOKENS: Final = (*_STAGES, "order-tokens", "action-range")
_ORDERS: Final = (*_TOKENS, "rank-order-owner", "action-set", "unsplittable")
_ENGINE: Final = (*_ORDERS, "stage-kinds", "engine-placement", "engine-backward")
_TIMELINE: Final = (*_ORDERS, "deadlock")

#: All that is checked, in this order.
RULES: Final = [
    Rule("digest", "the plan was made from this profile and this cluster", structure.digests_match),
    Rule("input-name", "it names them as they are named", structure.names_match),
    Rule("hardware-times", "the profile has times for all hardware of the cluster", structure.hardware_has_times),
    Rule("rank-count", "every rank has one record, one prediction and one order", structure.ranks_counted),
    Rule("stage-cover", "stages hold every layer once, in model order", structure.stages_cover),
    Rule("rank-range", "every stage is on a rank of the cluster", structure.stage_ranks_exist),
    Rule("empty-stage", "no stage is empty, but under the megatron engines", structure.stages_hold_layers, _STAGES),
    Rule("idle-rank", "every rank holds a stage", structure.ranks_hold_stages, _STAGES),
    Rule("same-rank", "layers that must share a rank do", structure.same_rank_kept, _STAGES),
    Rule("no-cut", "the model is cut only where the profile allows it", structure.cuts_allowed, _STAGES),
    Rule("order-tokens", "orders consist of actions", structure.tokens_are_actions),
    Rule("action-range", "actions are of stages and micro-batches that exist", structure.actions_in_range),
    Rule("rank-order-owner", "each rank runs the actions of its own stages", structure.actions_on_own_rank, _TOKENS),
    Rule(
        "action-set",
        "each stage and micro-batch has one F and one B, or one I and W",
        structure.actions_complete,
        _TOKENS,
    ),
    Rule("unsplittable", "stages that may not split run B alone", structure.unsplittable_stay_whole, _TOKENS),
    Rule(
        "rank-records",
        "hardware, node, memory limit and step_ns are the ranks' own",
        records.rank_records_match,
        _STAGES,
    ),
    Rule("kind-roles", "kinds have the profile's roles", records.kind_roles_match),
    Rule("stage-kinds", "each stage names the kinds of its layers", records.stage_kinds_match, _STAGES),
    Rule("training", "training run, model FLOPs and peak rates are the profile's", records.training_matches),
    Rule("action-times", "action times follow from profile and cluster", records.action_times_match, _STAGES),
    Rule("transfer-times", "transfer times follow from profile and cluster", records.transfer_times_match, _STAGES),
    Rule("stage-bytes", "stage bytes follow from the profile", records.stage_bytes_match, _STAGES),
    Rule("p2p", "p2p is the cluster's, or the engine's own", records.p2p_matches),
    Rule("recompute-request", "stages recompute as requested", records.recompute_as_requested),
    Rule("backward-request", "a fused backward is kept where requested", records.backward_as_requested, _TOKENS),
    Rule("rank-order", "the order of ranks along the model has each once", records.rank_order_is_one),
    Rule("placement-request", "stages are placed as requested", records.placement_as_requested, _STAGES),
    Rule("max-stages", "no rank holds more stages than requested", records.max_stages_kept, _STAGES),
    Rule("engine-placement", "the engine can run the placement", records.engine_takes_placement, _STAGES),
    Rule("engine-backward", "the engine can run the backward actions", records.engine_takes_backward, _TOKENS),
    Rule("engine-order", "the engine can run the orders", records.engine_runs_orders, _ENGINE),
    Rule("engine-stages", "the engine can build the stages", records.engine_takes_stages, _ENGINE),
    Rule("deadlock", "no action waits for itself", outcome.no_deadlock, _ORDERS),
    Rule(
        "communication-deadlock",
        "no send or receive waits for itself",
        communication.no_communication_deadlock,
        _TIMELINE,
    ),
    Rule("step-time", "the step time is what the replay gives", outcome.step_time_matches, _TIMELINE),
    Rule("span", "the span is what the replay gives", outcome.span_matches, _TIMELINE),
    Rule("bubble-ratio", "the bubble ratio is what the replay gives", outcome.bubble_ratio_matches, _TIMELINE),
    Rule(
        "rank-times",
        "busy times, first starts, last ends are what the replay gives",
        outcome.rank_times_match,
        _TIMELINE,
    ),
    Rule("peak-memory", "peak memory is what the replay gives", outcome.peak_memory_matches, _TIMELINE),
    Rule("memory-limit", "every rank stays within its memory", outcome.memory_fits, _TIMELINE),
    Rule("bound", "no bound is above what it bounds", outcome.bound_holds, _TIMELINE),
    Rule("gap", "the gap follows from the objective and its bound", outcome.gap_matches, _TIMELINE),
    Rule("speedup", "the speed-up follows from the baseline", outcome.speedup_matches, _TIMELINE),
    Rule("content-digest", "nothing was changed after the plan was written", records.content_is_sealed),
]


def verify(plan: Plan, profile: Loaded[Profile], cluster: Loaded[Cluster]) -> list[Finding]:
    """Return every rule the plan breaks, in the order of `RULES`; nothing where it is valid.

    Rules that have no meaning where another is broken (a timeline without sound orders) are passed over then.
    """
    case = Case(plan, profile, cluster)
    findings: list[Finding] = []
    broken: set[str] = set()
    for rule in RULES:
        if broken.isdisjoint(rule.needs):
            found = [Finding(rule.id, path, message) for path, message in rule.function(case)]
            findings += found
            if found:
                broken.add(rule.id)
    return findings


def check(plan: Plan, profile: Loaded[Profile], cluster: Loaded[Cluster]) -> None:
    """Raise where a plan breaks a rule, naming the first.

    Raises
    ------
    InvalidPlanError
        With the rule, its place in the plan, and how many more findings there are.
    """
    findings = verify(plan, profile, cluster)
    if findings:
        rule, path, message = findings[0]
        more = f" ({len(findings) - 1} more findings)" if len(findings) > 1 else ""
        raise InvalidPlanError(f"the plan breaks the rule {rule}: {message}{more}", path=path)
