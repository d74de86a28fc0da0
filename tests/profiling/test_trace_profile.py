from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.plan import ActionKind, load_plan
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.profiling.stage_fit import Stage
from octopipe_cli.profiling.trace import Observed
from octopipe_cli.profiling.trace_profile import (
    Imported,
    check_same_layers,
    check_stages,
    hardware_of_plan,
    import_stage_times,
    ranks_of_plan,
    stages_of_counts,
    stages_of_plan,
)
from tests import documents
from tests.editing import edited

STAGES = [Stage(("embedding", "mamba")), Stage(("mamba",)), Stage(("mamba", "head"))]


def base(changes: dict[str, Any] | None = None) -> Loaded[Profile]:
    document = edited(documents.toy(documents.PROFILE), changes or {})
    return Loaded(profile_from_document(document, "toy.json"), "toy.json", digest(document))


def seen(**times: float) -> dict[tuple[int, ActionKind], Observed]:
    """Return times by names such as F0 or B1."""
    return {(int(name[1:]), name[0]): Observed(time, 1) for name, time in times.items()}  # type: ignore[misc]


SPLIT = seen(F0=3, B0=9, F1=2, I1=4, W1=1, F2=7, I2=10, W2=4)
FUSED = seen(F0=3, B0=9, F1=2, B1=5, F2=7, B2=14)


def times_of(found: Imported, kind: str, hardware: str = "h100") -> tuple[float, float, float]:
    times = profile_from_document(found.document, "out").kinds[kind].times[hardware]
    return times.forward_ms, times.backward_input_ms, times.backward_weight_ms


def test_a_new_column_stands_beside_what_the_profile_had() -> None:
    profile = base({"kinds.mamba.activation_bytes": 5, "kinds.mamba.times.a100.step_ms": 0.5})
    found = import_stage_times(STAGES, SPLIT, "h100", {"method": "imported"}, base=profile, name="n")
    assert times_of(found, "mamba") == (2, 4, 1)
    assert times_of(found, "head") == (5, 6, 3)
    assert times_of(found, "embedding") == (1, 4, 0)  # only B is known: in proportion to the profile's I 1, W 0
    assert times_of(found, "mamba", "a100") == (2, 2, 2)
    mamba = found.document["kinds"]["mamba"]
    assert (mamba["activation_bytes"], mamba["times"]["h100"]["step_ms"], found.document["name"]) == (5, 0.5, "n")
    assert (found.warnings, found.document["provenance"]["residual"]) == ([], 0)


def test_without_a_profile_the_plan_s_layers_and_roles_make_one() -> None:
    roles = {"embedding": "embedding", "mamba": "decoder", "head": "head"}
    found = import_stage_times(STAGES, SPLIT, "h100", {}, roles=roles, name="m")
    assert times_of(found, "embedding") == (1, 0, 4)  # an embedding has no I
    profile = profile_from_document(found.document, "out")
    assert profile.layer_kinds == ("embedding", "mamba", "mamba", "mamba", "head")
    assert [kind.role for kind in profile.kinds.values()] == ["embedding", "decoder", "head"]
    assert found.warnings == []


def test_where_only_b_was_measured_kinds_are_not_split() -> None:
    roles = {"embedding": "embedding", "head": "head"}
    found = import_stage_times(STAGES, FUSED, "h100", {}, roles=roles)
    profile = profile_from_document(found.document, "out")
    assert {name: kind.splittable for name, kind in profile.kinds.items()} == {
        "embedding": True,
        "mamba": False,
        "head": False,
    }
    assert times_of(found, "mamba") == (2, 5, 0)
    assert found.warnings == ["only B was measured, I and W are not known: mamba, head not splittable"]


def test_a_profile_says_how_b_divides() -> None:
    profile = base({"kinds.mamba.times.a100.backward_weight_ms": 6})
    found = import_stage_times(STAGES, FUSED, "h100", {}, base=profile)
    assert times_of(found, "mamba") == (2, 1.25, 3.75)  # I 2, W 6
    assert found.warnings == []


def test_kinds_that_no_layer_is_of_keep_their_times() -> None:
    spare = {"times": {"a100": {"forward_ms": 8, "backward_input_ms": 8, "backward_weight_ms": 8}}}
    found = import_stage_times(STAGES, SPLIT, "h100", {}, base=base({"kinds.spare": spare}))
    assert times_of(found, "spare") == (8, 8, 8)
    assert profile_from_document(found.document, "out").hardware == ("a100", "h100")


def test_stages_come_from_a_plan_or_from_counts() -> None:
    plan = load_plan(str(documents.PLAN))
    wanted = [Stage(("embedding", "mamba")), Stage(("mamba", "head"))]
    assert stages_of_plan(plan) == wanted == stages_of_counts(base(), [2, 2])
    assert hardware_of_plan(plan) == "a100"
    check_same_layers(plan, base())
    with pytest.raises(InputError, match="do not hold the model's layers") as caught:
        stages_of_counts(base(), [2, 3])
    assert (caught.value.found, caught.value.expected) == (
        "5 layers in 2 stages",
        "4, the layers of toy.json, embedding and head included",
    )


def test_a_rank_s_stages_are_taken_as_one() -> None:
    plan = load_plan(str(documents.PLAN))
    first, second = plan.value.stages
    stages = [first, second, msgspec.structs.replace(first, layers=(4, 6))]
    several = Loaded(msgspec.structs.replace(plan.value, stages=stages), plan.file, plan.digest)
    assert ranks_of_plan(several) == [Stage(("embedding", "mamba") * 2), Stage(("mamba", "head"))]
    stages[2] = msgspec.structs.replace(stages[2], recompute=True)
    with pytest.raises(InputError, match="some stages of rank 0 recompute"):
        ranks_of_plan(several)


@pytest.mark.parametrize(
    ("layers", "found", "expected"),
    [
        (["embedding", "mamba", "head", "head"], 'layer 2 is "mamba"', '"head"'),
        (["embedding", "mamba", "mamba", "head", "head"], "4 layers, not 5", "5 layers"),
    ],
)
def test_a_plan_of_other_layers_is_refused(layers: list[str], found: str, expected: str) -> None:
    with pytest.raises(InputError, match=r"not those of toy\.json") as caught:
        check_same_layers(load_plan(str(documents.PLAN)), base({"layers": layers}))
    assert (caught.value.found, caught.value.expected) == (found, expected)


@pytest.mark.parametrize(
    ("times", "message", "found"),
    [
        (seen(F0=1, B0=1, F1=1), "no time of stage 1's backward", "F"),
        (seen(F0=1, B0=1, F1=1, I1=1), "no time of stage 1's backward", "F, I"),
        (seen(F0=1, B0=1, B1=1), "no time of stage 1's F", "B"),
        (seen(F0=1, B0=1), "no time of stage 1's F", "no action of it"),
        (seen(F0=1, B0=1, F1=1, B1=1, F2=1), "actions of a stage that there is not: 2", None),
    ],
)
def test_traces_must_be_of_these_stages_and_whole(
    times: dict[tuple[int, ActionKind], Observed], message: str, found: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        check_stages(STAGES[:2], times, "t.json")
    assert (caught.value.message, caught.value.found, caught.value.file) == (message, found, "t.json")
    check_stages([*STAGES[:2], Stage(())], seen(F0=1, W0=1, F1=1, I1=1, W1=1), "t.json")
