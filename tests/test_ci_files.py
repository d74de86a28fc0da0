"""The CI files of this repository: they parse, and their shell lines gate a scratch repository of plans."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from tests import documents
from tests.editing import edited

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/plan-check/action.yml").read_text())
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / ".gitlab/octopipe.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
PLAN = "plans/toy.plan.json"
SETTINGS = f"""
[plans]
"{PLAN}" = {{ profile = "profiles/toy.json", cluster = "profiles/pair.json" }}

[diff]
max_slowdown = "5%"
"""


class Ran(NamedTuple):
    """How a CI system's steps ended: the exit code of each, what all printed."""

    codes: list[int]
    out: str


Gate = Callable[[Path], Ran]


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the CI systems do, in a folder in which ``octopipe`` is this one."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", **environment}
    env["PATH"] = f"{folder / '.git' / 'bin'}{os.pathsep}{env['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def github(folder: Path, **inputs: str) -> Ran:
    given = {name: spec["default"] for name, spec in ACTION["inputs"].items()} | {"base": "main"} | inputs

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: given[match[1]], text)

    codes, out = [], ""
    for step in ACTION["runs"]["steps"]:
        environment = {name: filled(text) for name, text in step.get("env", {}).items()}
        environment["GITHUB_STEP_SUMMARY"] = str(folder / ".git" / "summary.md")
        done = shell(step["run"], folder / filled(step["working-directory"]), **environment)
        codes.append(done.returncode)
        out += done.stdout + done.stderr
    return Ran(codes, out)


def gitlab(folder: Path) -> Ran:
    job = GITLAB["octopipe"]
    base = shell("git rev-parse main", folder).stdout.strip()
    done = shell("\n".join(job["script"]), folder, **job["variables"], CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    return Ran([done.returncode], done.stdout + done.stderr)


def pre_commit(folder: Path, stage: str = "pre-commit") -> Ran:
    codes, out = [], ""
    for hook in HOOKS:
        if stage in hook.get("stages", ["pre-commit"]):
            done = shell(" ".join([hook["entry"], *map(shlex.quote, hook.get("args", []))]), folder)
            codes.append(done.returncode)
            out += done.stdout + done.stderr
    return Ran(codes, out)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return clones of a repository of one plan in each state, by name; ``main`` holds the plan as it was planned."""
    first = tmp_path_factory.mktemp("gate") / "first"
    (first / "profiles").mkdir(parents=True)
    (first / "plans").mkdir()
    (first / "octopipe.toml").write_text(SETTINGS)
    profile = documents.toy(documents.PROFILE)
    (first / "profiles/toy.json").write_text(json.dumps(profile))
    (first / "profiles/pair.json").write_text(documents.CLUSTER.read_text())
    must("git init -q -b main && git config user.email a@b.test && git config user.name a && mkdir .git/bin", first)
    wrapper = first / ".git" / "bin" / "octopipe"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m octopipe_cli "$@"\n')
    wrapper.chmod(0o755)
    replan = f"octopipe plan profiles/toy.json profiles/pair.json -m 2 --effort quick --no-gantt -o {PLAN}"
    must(f"{replan} && git add -A && git commit -q -m plan", first)
    found = {"unchanged": first}
    for name in ("stale", "replanned", "edited"):
        found[name] = first.parent / name
        must(f"cp -r . ../{name}", first)
    times = profile["kinds"]["head"]["times"]["a100"]
    slower = {f"kinds.head.times.a100.{key}": time * 1.2 for key, time in times.items()}
    for name in ("stale", "replanned"):
        (found[name] / "profiles/toy.json").write_text(json.dumps(edited(profile, slower)))
    must(replan, found["replanned"])
    plan = found["edited"] / PLAN
    step = json.loads(plan.read_text())["predicted"]["step_time_ns"]
    plan.write_text(plan.read_text().replace(f'"step_time_ns": {step}, "span_ns"', '"step_time_ns": 1, "span_ns"'))
    return found


def must(script: str, folder: Path) -> None:
    done = shell(script, folder)
    assert done.returncode == 0, done.stderr


def test_the_action_is_a_composite_one() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(spec["description"] and "default" in spec for spec in ACTION["inputs"].values())
    first, *others = ACTION["runs"]["steps"]
    assert "if" not in first
    for step in others:
        assert step["if"] == "${{ !cancelled() }}"  # each step speaks, whatever those before it said
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # what a caller gives is never part of a script
        assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", json.dumps(step))) <= set(ACTION["inputs"])


def test_hooks_have_what_pre_commit_asks_for() -> None:
    assert [hook["id"] for hook in HOOKS] == ["octopipe-verify", "octopipe-check", "octopipe-diff"]
    for hook in HOOKS:
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert re.search(hook["files"], PLAN)
        assert re.search(hook["files"], "pyproject.toml")
        assert not re.search(hook["files"], "README.md")
        assert hook["pass_filenames"] is False


def options(texts: Iterator[str]) -> set[tuple[str, str]]:
    """Return (command, option) of every octopipe command in shell lines."""
    lines = [line for text in texts for line in text.replace('"${gate[@]}"', "--base").splitlines()]
    calls = [re.search(r"octopipe (\w+)(.*)", line) for line in lines]
    return {(call[1], option) for call in calls if call for option in re.findall(r"(--[\w-]+\w)", call[2])}


def test_every_option_exists() -> None:
    from octopipe_cli.cli.app import command

    texts = [step["run"] for step in ACTION["runs"]["steps"]] + GITLAB["octopipe"]["script"]
    texts += [hook["entry"] for hook in HOOKS]
    used = options(iter(texts))
    assert ("diff", "--base") in used
    for name, option in used:
        assert option in {flag for parameter in command().commands[name].params for flag in parameter.opts}


def test_github(states: dict[str, Path]) -> None:
    ran = github(states["stale"])
    assert ran.codes == [1, 1, 0]
    assert f"{PLAN}: stale, its inputs give another plan now" in ran.out
    assert {"step-time-slower", "profile-changed"} <= set(re.findall(r"^  ([\w-]+), \$", ran.out, re.MULTILINE))
    ran = github(states["replanned"], **{"fail-on": "never", "paths": "plans\nprofiles\n"})
    assert ran.codes == [0, 0, 0]
    assert "step-time-slower" in ran.out
    ran = github(states["edited"])
    assert ran.codes == [1, 1, 1]
    assert f"{PLAN}: not valid" in ran.out
    errors = re.findall(r"^::error file=([^,]+),line=(\d+),title=octopipe ([\w-]+)::", ran.out, re.MULTILINE)
    assert "plan-invalid" in {name for _, _, name in errors}
    assert {file for file, _, _ in errors} == {PLAN}
    summary = (states["edited"] / ".git" / "summary.md").read_text()
    assert summary.startswith(f"### main:{PLAN} → {PLAN}\n")
    assert "- `plan-invalid`: " in summary.partition("<details>")[0]


def test_gitlab(states: dict[str, Path]) -> None:
    assert gitlab(states["unchanged"]).codes == [0]
    ran = gitlab(states["replanned"])
    assert ran.codes == [1]  # slower by more than the settings allow
    report = ElementTree.parse(states["replanned"] / GITLAB["octopipe"]["artifacts"]["reports"]["junit"])
    failed = [case.get("name") for case in report.iter("testcase") if case.find("failure") is not None]
    assert "step-time-slower" in failed
    assert "! step-time-slower: the step time grows from " in ran.out
    settings = states["replanned"] / "octopipe.toml"
    settings.write_text(SETTINGS.replace("5%", "25%"))  # accepted in review
    assert gitlab(states["replanned"]).codes == [0]
    settings.write_text(SETTINGS)


def test_pre_commit(states: dict[str, Path]) -> None:
    assert pre_commit(states["stale"]).codes == [1, 0]
    assert pre_commit(states["replanned"]).codes == [0, 1]
    assert pre_commit(states["edited"], "pre-push").codes == [1]
