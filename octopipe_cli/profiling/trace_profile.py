"""Profiles from measured stage times: which stage holds which layers, the fit, the profile with its new column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import VERSION, Document, Loaded
from octopipe_cli.formats import show as quoted
from octopipe_cli.plan import ActionKind, Plan
from octopipe_cli.profile import SCHEMA, Profile, Times, compress, expand, profile_document, profile_from_document
from octopipe_cli.profiling.stage_fit import Fit, Stage, fit
from octopipe_cli.profiling.trace import Observed

REMEDY: Final = "give the model's profile with --profile: the answer nearest to its times is then taken"


class Imported(NamedTuple):
    """A profile document, the fit behind it, and what its reader should know."""

    document: Document
    fit: Fit
    warnings: list[str]


def stages_of_plan(plan: Loaded[Plan]) -> list[Stage]:
    """Return the stages of a plan."""
    return [Stage(tuple(expand(stage.kinds)), stage.recompute) for stage in plan.value.stages]


def ranks_of_plan(plan: Loaded[Plan]) -> list[Stage]:
    """Return what each rank of a plan holds, as if it were one stage.

    Raises
    ------
    InputError
        Where only some stages of a rank recompute: its times are then no sum of its layers'.
    """
    found = []
    for rank in range(len(plan.value.ranks)):
        own = [stage for stage in plan.value.stages if stage.rank == rank]
        recompute = {stage.recompute for stage in own}
        if len(recompute) > 1:
            raise InputError(f"some stages of rank {rank} recompute, others don't", file=plan.file, path="$.stages")
        found.append(Stage(tuple(kind for stage in own for kind in expand(stage.kinds)), recompute == {True}))
    return found


def hardware_of_plan(plan: Loaded[Plan]) -> str:
    """Return the plan's hardware; raises InputError where its ranks have several."""
    names = list(dict.fromkeys(rank.hardware for rank in plan.value.ranks))
    if len(names) > 1:
        raise InputError(
            "the plan's ranks have several hardwares: times of stages on different ones cannot be told apart",
            file=plan.file,
            path="$.ranks",
            found=", ".join(names),
            remedy="trace a run on one hardware for each, and merge the profiles",
        )
    return names[0]


def stages_of_counts(profile: Loaded[Profile], counts: Sequence[int]) -> list[Stage]:
    """Return the stages of a profile's layers, given how many layers each stage has."""
    kinds = profile.value.layer_kinds
    if sum(counts) != len(kinds):
        raise InputError(
            "the stages do not hold the model's layers",
            found=f"{sum(counts)} layers in {len(counts)} stages",
            expected=f"{len(kinds)}, the layers of {profile.file}, embedding and head included",
        )
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return [Stage(kinds[start : start + count]) for start, count in zip(starts, counts, strict=True)]


def check_same_layers(plan: Loaded[Plan], profile: Loaded[Profile]) -> None:
    """Raise InputError where a plan's layers are not those of a profile."""
    planned = [kind for stage in stages_of_plan(plan) for kind in stage.kinds]
    wanted = list(profile.value.layer_kinds)
    if planned != wanted:
        at = next((i for i, pair in enumerate(zip(planned, wanted, strict=False)) if pair[0] != pair[1]), None)
        where = f"{len(planned)} layers, not {len(wanted)}" if at is None else f"layer {at} is {quoted(planned[at])}"
        raise InputError(
            f"the plan's layers are not those of {profile.file}",
            file=plan.file,
            path="$.stages",
            found=where,
            expected=f"{len(wanted)} layers" if at is None else quoted(wanted[at]),
            remedy="give the profile the plan was made from",
        )


def check_stages(stages: Sequence[Stage], observed: Mapping[tuple[int, ActionKind], Observed], files: str) -> None:
    """Raise InputError where what was measured is not of these stages, or a stage with layers lacks a time."""
    strange = sorted({stage for stage, _ in observed if stage >= len(stages)})
    if strange:
        raise InputError(
            f"actions of a stage that there is not: {strange[0]}",
            file=files,
            expected=f"stages 0 to {len(stages) - 1}",
            remedy="give the plan (or the layers a stage) of the run that was traced",
        )
    for stage, holding in enumerate(stages):
        if not holding.kinds:
            continue
        have = {kind for number, kind in observed if number == stage}
        whole = "B" in have or {"I", "W"} <= have or (stage == 0 and "W" in have)
        if "F" not in have or not whole:
            raise InputError(
                f"no time of stage {stage}'s {'F' if 'F' not in have else 'backward'}",
                file=files,
                found=", ".join(sorted(have)) or "no action of it",
                expected="F, and B or I and W",
                remedy="give the traces of all ranks, of whole steps",
            )


def import_stage_times(
    stages: Sequence[Stage],
    observed: Mapping[tuple[int, ActionKind], Observed],
    hardware: str,
    provenance: Document,
    *,
    base: Loaded[Profile] | None = None,
    roles: Mapping[str, str] | None = None,
    name: str = "model",
) -> Imported:
    """Return the profile of measured stage times.

    Parameters
    ----------
    stages, observed
        Layers by stage; medians by stage and action (see `stage_fit.fit`).
    hardware
        Name of the column; in `base` it is replaced where it is there.
    provenance
        What the profile says of its origin.
    base
        The model's profile: its sizes, rules and other columns stay, and its times break ties and say how B divides
        into I and W where only B was measured. Without it sizes are not modelled.
    roles
        Of the kinds, where there is no `base`.
    name
        Of the profile.

    Notes
    -----
    A kind of which only B is known and nothing says how it divides is not splittable, but for the embedding, which has
    no I.
    """
    column = None if base is None else hardware if hardware in base.value.hardware else base.value.hardware[0]
    before = None if base is None or column is None else {k: v.times[column] for k, v in base.value.kinds.items()}
    found = fit(stages, observed, before, REMEDY)
    if base is None:
        document = _bare(stages, roles or {}, name)
    else:
        document = profile_document(base.value)
        document["name"] = name
    fused = []
    for kind, entry in document["kinds"].items():
        known = before[kind] if before is not None else None
        times = found.times.get(kind)
        if times is None:  # no layer is of this kind, but a column has times for all
            entry["times"].setdefault(hardware, msgspec.to_builtins(known))
            continue
        written, whole = _times(times, entry.get("role"), known)
        if known is not None and known.step_ms:
            written["step_ms"] = known.step_ms
        entry.setdefault("times", {})[hardware] = written
        if whole:
            entry["splittable"] = False
            fused.append(kind)
    document["provenance"] = {
        **provenance,
        "residual": round(found.residual, 6),
        "tool": f"octopipe {__version__}",
        **({} if base is None else {"profile_digest": base.digest, "profile_provenance": base.value.provenance}),
    }
    profile_from_document(document, name)
    warnings = []
    if fused:
        warnings.append(f"only B was measured, I and W are not known: {', '.join(fused)} not splittable")
    return Imported(document, found, warnings)


def _bare(stages: Sequence[Stage], roles: Mapping[str, str], name: str) -> Document:
    kinds = [kind for stage in stages for kind in stage.kinds]
    entries: dict[str, Any] = {}
    for kind in kinds:
        role = roles.get(kind, "decoder")
        entries.setdefault(kind, {} if role == "decoder" else {"role": role})
    return {"schema": SCHEMA, "version": VERSION, "name": name, "kinds": entries, "layers": compress(tuple(kinds))}


def _times(found: Mapping[ActionKind, float], role: str | None, before: Times | None) -> tuple[dict[str, float], bool]:
    """Return a kind's times as profiles hold them, and whether only B counts."""
    forward = round(found["F"], 6)
    if "B" not in found:
        return {
            "forward_ms": forward,
            "backward_input_ms": round(found.get("I", 0.0), 6),
            "backward_weight_ms": round(found.get("W", 0.0), 6),
        }, False
    whole = found["B"]
    share = 0.0 if role == "embedding" else None
    if before is not None and before.backward_input_ms + before.backward_weight_ms > 0:
        share = before.backward_input_ms / (before.backward_input_ms + before.backward_weight_ms)
    inputs = whole if share is None else share * whole
    times = {"forward_ms": forward, "backward_input_ms": round(inputs, 6)}
    return times | {"backward_weight_ms": round(whole - inputs, 6)}, share is None
