from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.profiling.calibrate import Calibrated, MeasuredTimes, calibrate, load_measured
from tests import documents
from tests.editing import edited


def toy(changes: dict[str, Any] | None = None) -> Loaded[Profile]:
    """Return the toy profile: embedding 1, 1, 0 ms; two mambas 2, 2, 2; head 1, 1, 1."""
    document = edited(documents.toy(documents.PROFILE), changes or {})
    return Loaded(profile_from_document(document, "toy.json"), "toy.json", digest(document))


def calibrated(
    measured: dict[str, dict[str, float]], profile: Loaded[Profile] | None = None, **more: Any
) -> Calibrated:
    times = {kind: MeasuredTimes(**values) for kind, values in measured.items()}
    return calibrate(toy() if profile is None else profile, (times, "sha256:0"), "m.json", **more)


def times_of(result: Calibrated, kind: str, hardware: str = "a100") -> tuple[float | None, ...]:
    times = profile_from_document(result.document, "out").kinds[kind].times[hardware]
    return times.forward_ms, times.backward_input_ms, times.backward_weight_ms, times.backward_ms


def test_a_kind_is_scaled_by_one_factor_least_squares_over_its_times() -> None:
    # 2 s against 3 and 2 s against 5: s = (2 x 3 + 2 x 5) / (4 + 4) = 2
    result = calibrated({"mamba": {"forward_ms": 3, "backward_weight_ms": 5}})
    assert times_of(result, "mamba") == (4, 4, 4, None)
    assert result.factors["mamba"] == {"all": 2.0}
    assert [(row.time, row.before_ms, row.measured_ms, row.after_ms) for row in result.rows] == [
        ("forward_ms", 2, 3, 4),
        ("backward_weight_ms", 2, 5, 4),
    ]
    # two layers each: weights 6 and 10 ms; errors 1/3 and -1/5
    assert result.residual == pytest.approx(((6 * (1 / 3) ** 2 + 10 * 0.2**2) / 16) ** 0.5)
    assert result.before == pytest.approx(((6 * (1 / 3) ** 2 + 10 * 0.6**2) / 16) ** 0.5)


def test_kinds_that_were_not_measured_take_the_factor_of_the_rest_together() -> None:
    # mambas (two layers): 4 ms against 12; head 1 against 1: (4 x 12 + 1 x 1) / (16 + 1) = 49/17
    result = calibrated({"mamba": {"forward_ms": 6}, "head": {"forward_ms": 1}})
    assert result.unmeasured == ["embedding"]
    assert times_of(result, "embedding") == (round(49 / 17, 6), round(49 / 17, 6), 0, None)
    assert times_of(result, "mamba") == (6, 6, 6, None)
    assert times_of(result, "head") == (1, 1, 1, None)
    assert result.residual == 0


def test_by_pass_every_measured_time_is_met() -> None:
    result = calibrated({"mamba": {"forward_ms": 3, "backward_input_ms": 5}}, scale="pass")
    # W was not measured: it takes the kind's own factor, (2 x 3 + 2 x 5) / 8 = 2
    assert times_of(result, "mamba") == (3, 5, 4, None)
    assert result.residual == 0
    assert result.factors["mamba"] == {"forward_ms": 1.5, "backward_input_ms": 2.5, "backward_weight_ms": 2.0}


def test_a_measured_b_scales_i_and_w_together() -> None:
    result = calibrated({"mamba": {"forward_ms": 3, "backward_ms": 10}}, scale="pass")
    assert times_of(result, "mamba") == (3, 5, 5, None)
    assert result.residual == 0
    whole = toy({"kinds.mamba.times.a100.backward_ms": 5})
    assert times_of(calibrated({"mamba": {"backward_ms": 10}}, whole, scale="pass"), "mamba")[1:] == (5, 5, 10)
    assert times_of(calibrated({"mamba": {"backward_ms": 10}}, whole), "mamba") == (4, 4, 4, 10)


def test_b_measured_beside_i_and_w_is_kept_as_it_is() -> None:
    times = {"backward_input_ms": 3, "backward_weight_ms": 4, "backward_ms": 6.5}
    result = calibrated({"mamba": times}, scale="pass")
    assert times_of(result, "mamba")[1:] == (3, 4, 6.5)


def test_what_is_not_time_stays_and_the_calibration_is_told() -> None:
    profile = toy({"kinds.mamba.activation_bytes": 7, "kinds.mamba.times.a100.step_ms": 0.5})
    result = calibrated({"mamba": {"forward_ms": 4}}, profile)
    mamba = profile_from_document(result.document, "out").kinds["mamba"]
    assert (mamba.activation_bytes, mamba.times["a100"].step_ms) == (7, 0.5)
    told = result.document["provenance"]
    assert told["method"] == "written by hand"
    assert told["calibration"]["factors"]["mamba"] == {"all": 2.0}
    assert told["calibration"]["profile_digest"] == profile.digest
    assert told["calibration"]["unmeasured_kinds"] == ["embedding", "head"]


def test_only_the_named_column_is_scaled() -> None:
    document = documents.full_profile()
    profile = Loaded(profile_from_document(document, "full.json"), "full.json", digest(document))
    result = calibrated({"ff": {"forward_ms": 3}}, profile, hardware="b")
    assert times_of(result, "ff", "b") == (3, 4, 0.5, 4.4)
    assert times_of(result, "ff", "a") == (1.5, 2, 0.25, 2.2)
    with pytest.raises(InputError, match="several columns") as caught:
        calibrated({"ff": {"forward_ms": 3}}, profile)
    assert caught.value.remedy == "say which with --hardware"
    with pytest.raises(InputError, match='no times for "d"'):
        calibrated({"ff": {"forward_ms": 3}}, profile, hardware="d")


def test_times_of_zero_have_no_factor() -> None:
    result = calibrated({"embedding": {"backward_weight_ms": 3}}, scale="pass")
    assert times_of(result, "embedding") == (1, 1, 3, None)
    assert result.factors["embedding"] == {"forward_ms": 1.0, "backward_input_ms": 1.0}


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        calibrated({"mamab": {"forward_ms": 1}})
    assert (caught.value.file, caught.value.path, caught.value.remedy) == ("m.json", "$.mamab", 'did you mean "mamba"?')


def test_times_that_grow_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="longer than a profile holds"):
        calibrated(
            {"mamba": {"forward_ms": 1e8}, "embedding": {"forward_ms": 5e7}},
            toy({"kinds.mamba.times.a100.backward_input_ms": 20}),
        )


def test_measured_times_are_read_from_kinds_or_from_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"mamba": {"forward_ms": 1.5, "backward_ms": 3}}))
    assert load_measured(str(file))[0] == {"mamba": MeasuredTimes(forward_ms=1.5, backward_ms=3)}
    file.write_text(json.dumps(documents.full_profile()))
    times, _ = load_measured(str(file), "b")
    assert times["ff"] == MeasuredTimes(forward_ms=1.5, backward_input_ms=2, backward_weight_ms=0.25, backward_ms=2.2)
    assert list(times) == ["embedding", "mixer", "ff", "mtp", "head"]
    with pytest.raises(InputError, match="several columns") as caught:
        load_measured(str(file))
    assert caught.value.remedy == "say which with --measured-hardware"


@pytest.mark.parametrize(
    ("content", "message", "path"),
    [
        ([], "not an object", "$"),
        ({}, "not a value that can stand here", "$"),
        ({"mlp": {}}, "no time", "$.mlp"),
        ({"mlp": {"forward_ms": -1}}, "not a value that can stand here", "$.mlp.forward_ms"),
        ({"mlp": {"forward": 1}}, 'unknown key "forward"', "$.mlp.forward"),
        ({"mlp": 3}, "not a value that can stand here", "$.mlp"),
    ],
)
def test_broken_measurements_are_refused(tmp_path: Path, content: object, message: str, path: str) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        load_measured(str(file))
    assert (caught.value.message, caught.value.path, caught.value.file) == (message, path, str(file))


def test_a_list_of_kinds_has_no_columns(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"mlp": {"forward_ms": 1}}')
    with pytest.raises(InputError, match="only a profile has columns"):
        load_measured(str(file), "a100")
