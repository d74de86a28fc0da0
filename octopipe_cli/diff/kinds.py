"""The table of every kind of change: its stable id, what it says, and what it means for a reviewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from octopipe_cli.diff.change import Effect

#: What a threshold is counted in: per cent of the old value, or percentage points.
Unit = Literal["percent", "points"]


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change.

    Attributes
    ----------
    id
        The stable id: ``step-time-slower``.
    description
        One line for lists of ids.
    effect
        Its effect where nothing else is asked for.
    mirror
        The id that stands in the comparison the other way round; its own where the change has no direction.
    unit
        What its threshold is counted in; None where none applies.
    beyond
        Its effect beyond a threshold that was given; within one it is neutral.
    """

    id: str
    description: str
    effect: Effect
    mirror: str
    unit: Unit | None = None
    beyond: Effect = "neutral"


def _pair(
    worse: tuple[str, str], better: tuple[str, str], *, gating: bool = False, unit: Unit | None = None
) -> list[ChangeKind]:
    """Return two kinds that mirror each other; `gating`: they are regression and improvement without being asked."""
    effects: tuple[Effect, Effect] = ("regression", "improvement") if gating else ("neutral", "neutral")
    return [
        ChangeKind(worse[0], worse[1], effects[0], better[0], unit, "regression"),
        ChangeKind(better[0], better[1], effects[1], worse[0], unit, "improvement"),
    ]


def _same(name: str, description: str) -> list[ChangeKind]:
    """Return a kind that is its own mirror."""
    return [ChangeKind(name, description, "neutral", name)]


_TABLE: Final = (
    # whole files
    _pair(("plan-removed", "a plan file is gone"), ("plan-added", "a plan file is new")),
    _pair(
        ("plan-invalid", "the new plan does not hold: it has no timeline, or not the figures it predicts"),
        ("plan-repaired", "what did not hold in the old plan holds in the new one"),
        gating=True,
    ),
    # times
    _pair(
        ("step-time-slower", "the predicted step time is longer"),
        ("step-time-faster", "the predicted step time is shorter"),
        gating=True,
        unit="percent",
    ),
    _pair(
        ("span-longer", "the predicted span is longer; a regression where the span is the objective"),
        ("span-shorter", "the predicted span is shorter; an improvement where the span is the objective"),
        unit="percent",
    ),
    _pair(
        ("bubble-ratio-higher", "ranks are idle for a larger part of the step"),
        ("bubble-ratio-lower", "ranks are idle for a smaller part of the step"),
        unit="points",
    ),
    _pair(
        ("gap-larger", "the plan is further above its certified bound"),
        ("gap-smaller", "the plan is closer to its certified bound"),
        unit="points",
    ),
    _pair(
        ("bound-higher", "the certified bound of any plan is higher"),
        ("bound-lower", "the certified bound of any plan is lower"),
        unit="percent",
    ),
    _pair(
        ("plan-bound-higher", "the bound of this partition and placement is higher"),
        ("plan-bound-lower", "the bound of this partition and placement is lower"),
        unit="percent",
    ),
    _pair(
        ("span-bound-higher", "the certified bound of the span is higher"),
        ("span-bound-lower", "the certified bound of the span is lower"),
        unit="percent",
    ),
    _same("bound-scope-changed", "the bound speaks of other plans than before"),
    _pair(("baseline-removed", "no classic schedule to compare with any more"), ("baseline-added", "now there is one")),
    _same("baseline-changed", "another classic schedule or partition is the best"),
    _pair(
        ("baseline-slower", "the best classic schedule is slower"),
        ("baseline-faster", "the best classic schedule is faster"),
        unit="percent",
    ),
    _pair(
        ("speedup-lower", "the plan gains less over the best classic schedule"),
        ("speedup-higher", "the plan gains more over the best classic schedule"),
        unit="percent",
    ),
    _same("rank-times-changed", "ranks are busy for longer or shorter, start or end at other times"),
    # memory
    _pair(
        ("rank-memory-higher", "a rank's predicted peak memory is higher; a regression beyond --max-memory-growth"),
        ("rank-memory-lower", "a rank's predicted peak memory is lower"),
        unit="percent",
    ),
    _pair(
        ("headroom-below", "a rank has less memory left than --min-headroom-gib, and less than before"),
        ("headroom-recovered", "a rank that had less memory left than --min-headroom-gib has more of it"),
        gating=True,
    ),
    _pair(
        ("memory-limit-lower", "a rank may use less memory"),
        ("memory-limit-higher", "a rank may use more memory"),
        unit="percent",
    ),
    _pair(
        ("engine-memory-higher", "the engine keeps more memory on a rank"),
        ("engine-memory-lower", "the engine keeps less memory on a rank"),
        unit="percent",
    ),
    # partition, placement, stages
    _pair(("layers-removed", "the model has fewer layers"), ("layers-added", "the model has more layers")),
    _same("layer-kinds-changed", "layers are of other kinds"),
    _same("kind-roles-changed", "kinds of layers came, went or have another role"),
    _same("layers-moved", "layers sit on another rank"),
    _same("cuts-moved", "the model is cut into stages at other layers"),
    _pair(("stage-removed", "there are fewer stages"), ("stage-added", "there are more stages")),
    _same("placement-changed", "stages follow one another on other ranks"),
    _pair(("recompute-on", "layers recompute their activations"), ("recompute-off", "layers keep their activations")),
    _same("stage-costs-changed", "stages of the same layers on the same rank have other times or sizes"),
    # ranks
    _pair(("rank-removed", "there are fewer ranks"), ("rank-added", "there are more ranks")),
    _same("rank-hardware-changed", "a rank is of other hardware"),
    _same("rank-node-changed", "a rank stands on another node"),
    _same("rank-step-time-changed", "a rank's optimizer step takes another time"),
    # orders
    _same("order-changed", "a rank runs its actions in another order"),
    # what was asked for
    _same("engine-changed", "the plan is for another engine"),
    _pair(("engine-lost", "an engine no longer runs the plan"), ("engine-gained", "an engine runs the plan now")),
    _same("microbatches-changed", "a step has another number of micro-batches"),
    _same("request-changed", "something else of the request is different"),
    _same("p2p-changed", "transfers block the sender, or no longer do"),
    # inputs
    _same("profile-changed", "the plan was made from another profile"),
    _same("cluster-changed", "the plan was made from another cluster"),
    _pair(
        ("kind-slower", "a kind of layer takes longer"),
        ("kind-faster", "a kind of layer takes less time"),
        unit="percent",
    ),
    _same("kind-times-shifted", "a kind of layer takes as long as before, its passes do not"),
    _same("kind-sizes-changed", "a kind of layer has other sizes"),
    _same("kind-traits-changed", "a kind of layer has another role or may be split otherwise"),
    _pair(("kind-removed", "a kind of layer is gone"), ("kind-added", "a kind of layer is new")),
    _pair(
        ("hardware-removed", "a kind's times on a hardware are gone"),
        ("hardware-added", "a kind has times on more hardware"),
    ),
    _same("profile-layers-changed", "the profile lists other layers"),
    _same("profile-rules-changed", "other rules hold for the layers"),
    _same("profile-training-changed", "the profile is of another training run"),
    _same("cluster-ranks-changed", "ranks of the cluster have other hardware, speed, memory or node"),
    _same("cluster-links-changed", "links of the cluster are faster or slower"),
    _same("cluster-overhead-changed", "an action costs another overhead"),
    _same("cluster-p2p-changed", "the cluster transfers otherwise"),
    # where it comes from
    _same("version-changed", "another octopipe made the plan"),
    _same("stopped-by-changed", "something else ended the search"),
    _pair(
        ("no-longer-reproducible", "the same inputs no longer give this plan (a time limit cut the search short)"),
        ("reproducible-again", "the same inputs give this plan"),
        gating=True,
    ),
    _same("field-changed", "another field of the plan is different"),
)

#: Every kind of change by id, in the order of the table.
KINDS: Final[dict[str, ChangeKind]] = {kind.id: kind for kinds in _TABLE for kind in kinds}
