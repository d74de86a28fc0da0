"""``profile merge``, ``calibrate``, ``import trace`` and ``import megatron``: files in, profile and table out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octopipe_cli.plan import load_plan, parse_orders
from octopipe_cli.profile import load_profile
from tests.cli.conftest import Octopipe
from tests.profiling.test_megatron_timers import block
from tests.profiling.traces import event, run_of, trace

TRACED = {(0, "F"): 3.0, (0, "B"): 7.0, (1, "F"): 5.0, (1, "B"): 9.0}


@pytest.fixture
def other(folder: Path) -> str:
    """Return the toy profile with another column."""
    text = (folder / "profile.json").read_text().replace('"a100"', '"h100"')
    (folder / "other.json").write_text(text)
    return "other.json"


@pytest.fixture
def traces(folder: Path) -> list[str]:
    """Return traces of the toy plan's run."""
    names = []
    for rank, document in enumerate(run_of(parse_orders(load_plan("plan.json").value.orders), TRACED)):
        names.append(f"rank{rank}.json")
        (folder / names[-1]).write_text(json.dumps(document))
    return names


def test_merged_profiles_have_both_columns(other: str, octopipe: Octopipe) -> None:
    result = octopipe("profile", "merge", "profile.json", other, "-o", "both.json")
    assert result == (0, "", "")
    assert load_profile("both.json").value.hardware == ("a100", "h100")
    assert (
        json.loads(octopipe("profile", "merge", "-", other, stdin=Path("profile.json").read_bytes()).out)["name"]
        == "toy"
    )


def test_one_profile_cannot_be_merged(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("profile", "merge", "profile.json")
    assert (result.code, result.out) == (2, "")
    assert "two or more profiles" in result.err
    assert octopipe("profile", "merge", "profile.json", "profile.json").code == 2
    assert octopipe("profile", "merge", "-", "-").code == 2


def test_an_input_is_never_overwritten(other: str, octopipe: Octopipe) -> None:
    before = Path(other).read_bytes()
    assert octopipe("profile", "merge", "profile.json", other, "-o", other).code == 2
    assert octopipe("profile", "calibrate", "profile.json", "--measured", other, "-o", other).code == 2
    assert octopipe("profile", "import", "trace", other, "--plan", "plan.json", "-o", other).code == 2
    assert Path(other).read_bytes() == before


def test_calibration_prints_what_remains(folder: Path, octopipe: Octopipe) -> None:
    (folder / "m.json").write_text('{"mamba": {"forward_ms": 3, "backward_weight_ms": 5}}')
    result = octopipe("profile", "calibrate", "profile.json", "--measured", "m.json", "-o", "out.json")
    assert (result.code, result.out) == (0, "")
    warning, head, first, second, last = result.err.splitlines()
    assert warning == "octopipe: warning: not measured, scaled as the rest together: embedding, head"
    assert head.split() == ["kind", "time", "before", "ms", "measured", "ms", "fitted", "ms", "off", "by", "%"]
    assert first.split() == ["mamba", "F", "2.000", "3.000", "4.000", "+33.3"]
    assert second.split() == ["mamba", "W", "2.000", "5.000", "4.000", "-20.0"]
    assert last == "residual: 25.8% (before: 51.6%)"
    assert load_profile("out.json").value.kinds["mamba"].times["a100"].forward_ms == 4
    command = ("profile", "calibrate", "profile.json", "--measured", "m.json", "--scale", "pass")
    assert json.loads(octopipe(*command).out)["kinds"]["mamba"]["times"]["a100"]["forward_ms"] == 3


def test_traces_of_a_plan_give_a_profile(traces: list[str], octopipe: Octopipe) -> None:
    result = octopipe("profile", "import", "trace", *traces, "--plan", "plan.json", "--profile", "profile.json")
    assert result.code == 0
    document = json.loads(result.out)
    times = document["kinds"]["mamba"]["times"]["a100"]
    # two stages cannot tell three kinds apart: the answer nearest to the profile's, in proportion
    forward = [document["kinds"][kind]["times"]["a100"]["forward_ms"] for kind in ("embedding", "mamba", "head")]
    assert forward[0] + forward[1] == pytest.approx(3, rel=1e-3)
    assert forward[1] + forward[2] == pytest.approx(5, rel=1e-3)
    assert times["backward_input_ms"] == pytest.approx(
        times["backward_weight_ms"], rel=1e-3
    )  # 2 and 2 ms in the profile
    assert [line.split()[:3] for line in result.err.splitlines()[1:-1]] == [
        ["0", "B", "7.000"],
        ["0", "F", "3.000"],
        ["1", "B", "9.000"],
        ["1", "F", "5.000"],
    ]
    assert result.err.splitlines()[-1] == "residual: 0.0%"
    told = document["provenance"]
    assert (told["source"], told["runs"]) == (traces, {"0B": 2, "0F": 2, "1B": 2, "1F": 2})
    by_count = ("--profile", "profile.json", "--stage-layers", "2,2", "--hardware", "a100")
    again = json.loads(octopipe("profile", "import", "trace", *traces, *by_count).out)
    assert again["kinds"] == document["kinds"]


def test_what_traces_leave_open_needs_a_profile(traces: list[str], octopipe: Octopipe) -> None:
    result = octopipe("profile", "import", "trace", *traces, "--plan", "plan.json")
    assert (result.code, result.out) == (2, "")
    assert 'F of "embedding"' in result.err
    assert "--profile" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--profile", "profile.json"),
        ("--profile", "profile.json", "--stage-layers", "2,2"),
        ("--stage-layers", "2,2", "--hardware", "x"),
        ("--plan", "plan.json", "--stage-layers", "2,2"),
        ("--profile", "profile.json", "--stage-layers", "2,,2", "--hardware", "x"),
        ("--profile", "profile.json", "--stage-layers", "0,4", "--hardware", "x"),
        ("--profile", "profile.json", "--stage-layers", "4", "--hardware", "x"),
        ("--plan", "-", "--profile", "-"),
        ("--plan", "none.json"),
    ],
)
def test_stages_must_be_told(traces: list[str], octopipe: Octopipe, arguments: tuple[str, ...]) -> None:
    result = octopipe("profile", "import", "trace", *traces, *arguments)
    assert (result.code, result.out) == (2, "")


def test_a_trace_of_another_run_is_refused(folder: Path, octopipe: Octopipe) -> None:
    (folder / "t.json").write_text(json.dumps(trace(event("PP:5F0", 0, 10))))
    result = octopipe("profile", "import", "trace", "t.json", "--plan", "plan.json")
    assert result.code == 2
    assert "actions of a stage that there is not: 5" in result.err


def test_megatron_s_timers_give_a_profile(folder: Path, octopipe: Octopipe) -> None:
    (folder / "run.log").write_text(block([3, 5], [6, 10]))
    by_plan = octopipe("profile", "import", "megatron", "run.log", "--plan", "plan.json", "--profile", "profile.json")
    assert by_plan.code == 0, by_plan.err
    document = json.loads(by_plan.out)
    times = [document["kinds"][kind]["times"]["a100"] for kind in ("embedding", "mamba", "head")]
    forward = [each["forward_ms"] for each in times]
    assert forward[0] + forward[1] == pytest.approx(1.5, rel=1e-3)  # two micro-batches
    assert forward[1] + forward[2] == pytest.approx(2.5, rel=1e-3)
    assert times[0]["backward_weight_ms"] == 0  # the profile's proportions: I 1, W 0
    assert by_plan.err.splitlines()[0].split()[:2] == ["rank", "time"]
    assert document["provenance"]["num_microbatches"] == 2
    by_count = ("--profile", "profile.json", "--stage-layers", "2,2", "--hardware", "a100")
    assert octopipe("profile", "import", "megatron", "run.log", *by_count).code == 2
    result = octopipe("profile", "import", "megatron", "run.log", *by_count, "-m", 2)
    assert json.loads(result.out)["kinds"] == document["kinds"]
