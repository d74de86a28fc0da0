from __future__ import annotations

import json
from pathlib import Path

from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import edited

INPUTS = ("--profile", "profile.json", "--cluster", "cluster.json")


def test_a_valid_plan(folder: Path, octopipe: Octopipe) -> None:
    assert octopipe("verify", "plan.json", *INPUTS) == (0, "plan.json: valid\n", "")
    result = octopipe("verify", "plan.json", *INPUTS, "--format", "json")
    assert json.loads(result.out) == {"valid": True, "findings": []}


def test_a_plan_from_standard_input(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("verify", "-", *INPUTS, stdin=(folder / "plan.json").read_bytes())
    assert (result.code, result.out) == (0, "standard input: valid\n")


def test_each_finding_is_listed_and_the_answer_is_no(folder: Path, octopipe: Octopipe) -> None:
    changes = {"predicted.step_time_ns": 26_000_001, "predicted.span_ns": 25_999_999}
    (folder / "plan.json").write_text(json.dumps(edited(documents.toy(documents.PLAN), changes)))
    result = octopipe("verify", "plan.json", *INPUTS)
    assert (result.code, result.err) == (1, "")
    first, *findings = result.out.splitlines()
    assert first == f"plan.json: not valid, {len(findings)} findings"
    assert findings[0].startswith("  step-time, $.predicted.step_time_ns: ")
    assert findings[1].startswith("  span, $.predicted.span_ns: ")
    listed = json.loads(octopipe("verify", "plan.json", *INPUTS, "--format", "json").out)
    assert listed["valid"] is False
    assert [(each["rule"], each["path"]) for each in listed["findings"]][:2] == [
        ("step-time", "$.predicted.step_time_ns"),
        ("span", "$.predicted.span_ns"),
    ]


def test_a_plan_for_other_files_is_invalid(folder: Path, octopipe: Octopipe) -> None:
    document = documents.toy(documents.CLUSTER)
    (folder / "other.json").write_text(json.dumps({**document, "action_overhead_us": 1}))
    result = octopipe("verify", "plan.json", "--profile", "profile.json", "--cluster", "other.json")
    assert result.code == 1
    assert "digest, $.inputs.cluster.digest" in result.out


def test_a_file_that_cannot_be_read(folder: Path, octopipe: Octopipe) -> None:
    assert octopipe("verify", "plan.json", "--profile", "none.json", "--cluster", "cluster.json").code == 2
    assert octopipe("verify", "profile.json", *INPUTS).code == 2


SETTINGS = '[plans]\n"plan.json" = { profile = "profile.json", cluster = "cluster.json" }\n'


def test_files_that_the_settings_name(folder: Path, octopipe: Octopipe) -> None:
    (folder / "octopipe.toml").write_text(SETTINGS)
    assert octopipe("verify", "plan.json") == (0, "plan.json: valid\n", "")
    assert octopipe("verify", "--all") == (0, "plan.json: valid\n", "")
    assert octopipe("verify", "other.json").code == 2
    (folder / "octopipe.toml").unlink()
    assert octopipe("verify", "--all").code == 2


def test_all_are_verified_whatever_becomes_of_one(folder: Path, octopipe: Octopipe) -> None:
    lines = [SETTINGS.replace("plan.json", name) for name in ("plan.json", "edited.json")]
    (folder / "octopipe.toml").write_text(lines[0] + lines[1].removeprefix("[plans]\n"))
    (folder / "edited.json").write_text(json.dumps(edited(documents.toy(documents.PLAN), {"predicted.span_ns": 1})))
    result = octopipe("verify", "--all")
    assert (result.code, result.err) == (1, "")
    first, second, *findings = result.out.splitlines()
    assert (first, second) == ("plan.json: valid", "edited.json: not valid, 1 rule is broken")
    assert findings[0].startswith("  span, $.predicted.span_ns: ")
    listed = json.loads(octopipe("verify", "--all", "--format", "json").out)
    assert [(each["plan"], each["valid"]) for each in listed] == [("plan.json", True), ("edited.json", False)]
    (folder / "plan.json").unlink()
    result = octopipe("verify", "--all")
    assert result.code == 2
    assert [line.split(":")[0] for line in result.out.splitlines() if line[0] != " "] == ["plan.json", "edited.json"]
    listed = json.loads(octopipe("verify", "--all", "--format", "json").out)
    assert listed[0] == {"plan": "plan.json", "error": listed[0]["error"]}


def test_all_and_fresh(folder: Path, octopipe: Octopipe) -> None:
    (folder / "octopipe.toml").write_text(SETTINGS.replace("plan.json", "none.json"))
    assert octopipe("verify", "--all", "--fresh") == octopipe("plan", "--check-all")


def test_usage(folder: Path, octopipe: Octopipe) -> None:
    (folder / "octopipe.toml").write_text(SETTINGS)
    for arguments in (
        (),
        ("--all", "plan.json"),
        ("--all", *INPUTS),
        ("plan.json", "--profile", "profile.json"),
        ("plan.json", "--cluster", "cluster.json"),
    ):
        result = octopipe("verify", *arguments)
        assert (result.code, result.out) == (2, ""), arguments


def test_a_plan_that_was_never_made_is_told_apart(folder: Path, octopipe: Octopipe) -> None:
    (folder / "octopipe.toml").write_text(
        '[plans]\n"never.json" = { profile = "profile.json", cluster = "cluster.json" }\n'
    )
    result = octopipe("verify", "--all")
    assert result.code == 2
    assert "never.json: no such file" in result.out
    assert "remedy: make the plan, or take its line out of the settings" in result.out
