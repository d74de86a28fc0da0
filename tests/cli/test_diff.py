"""``octopipe diff``: its exit codes, files of git revisions, folders against a revision, settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.plan import plan_text
from tests.cli.conftest import Octopipe
from tests.diff.plans import cluster, plan, profile, sealed_plan

HEAVIER = profile(kinds__head__times__a100__forward_ms=6)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an old plan, a slower one and a faster one; it is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").write_text(plan_text(sealed_plan()))
    (tmp_path / "new.json").write_text(plan_text(sealed_plan(model=HEAVIER)))
    (tmp_path / "moved.json").write_text(plan_text(sealed_plan(seed=1)))
    return tmp_path


@pytest.fixture
def repository(here: Path) -> Path:
    """Return the folder as a git repository with a commit ``main``: plans/a.json, plans/sub/b.json and other files."""
    plans = here / "plans"
    (plans / "sub").mkdir(parents=True)
    for name in ("a.json", "sub/b.json"):
        (plans / name).write_text(plan_text(sealed_plan()))
    (plans / "package.json").write_text('{"name": "not a plan"}')
    (plans / "broken.json").write_text("{")
    (plans / "notes.json").write_text('{"schema": "octopipe.notes", "of": "octopipe.plan"}')
    (plans / "profile.json").write_text(json.dumps(profile()))
    for command in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.org"),
        ("config", "user.name", "a"),
        ("add", "-A"),
        ("commit", "-q", "-m", "plans"),
    ):
        subprocess.run(["git", *command], check=True)
    return here


def changes(octopipe: Octopipe, *arguments: object) -> dict[tuple[str | None, str | None], list[str]]:
    """Return the ids of each pair of files."""
    result = octopipe("diff", *arguments, "--fail-on", "never", "--format", "json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["schema"], document["version"], document["fails"]) == ("octopipe.diff", 1, False)
    return {(pair["old"], pair["new"]): [change["id"] for change in pair["changes"]] for pair in document["plans"]}


@pytest.mark.parametrize(
    ("new", "options", "code"),
    [
        ("old.json", (), 0),
        ("old.json", ("--fail-on", "any"), 0),
        ("new.json", (), 1),
        ("new.json", ("--max-slowdown", "0.5%"), 1),  # 142 to 143 ms: 0.70 %
        ("new.json", ("--max-slowdown", "1%"), 0),
        ("new.json", ("--max-slowdown", "1%", "--fail-on", "any"), 1),
        ("new.json", ("--fail-on", "never"), 0),
        ("moved.json", (), 0),
        ("moved.json", ("--fail-on", "any"), 1),
    ],
)
def test_exit_codes(octopipe: Octopipe, here: Path, new: str, options: tuple[str, ...], code: int) -> None:
    assert octopipe("diff", "old.json", new, *options).code == code


def test_json(octopipe: Octopipe, here: Path) -> None:
    result = octopipe("diff", "old.json", "moved.json", "--format", "json", "--fail-on", "any")
    change = {
        "id": "request-changed",
        "effect": "neutral",
        "fails": True,
        "path": "$.request.seed",
        "message": "seed: 1 instead of 0",
        "old": 0,
        "new": 1,
        "details": [],
    }
    assert result.code == 1
    (pair,) = json.loads(result.out)["plans"]
    assert (pair["old"], pair["new"], pair["changes"]) == ("old.json", "moved.json", [change])


def test_an_edited_plan_fails(octopipe: Octopipe, here: Path) -> None:
    text = (here / "old.json").read_text()
    (here / "edited.json").write_text(text.replace('"step_time_ns": 142000000', '"step_time_ns": 100000000'))
    result = octopipe("diff", "old.json", "edited.json")
    assert result.code == 1
    assert "plan-invalid" in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("old.json",), "two plans are compared"),
        (("old.json", "new.json", "old.json"), "two plans are compared"),
        (("old.json", "none.json"), "no such file"),
        (("-", "-"), "cannot both be standard input"),
        (("old.json", "new.json", "--max-slowdown", "1"), "not a percentage"),
        (("old.json", "new.json", "--min-headroom-gib", "-1"), "not a size"),
        (("old.json", "new.json", "--old-profile", "p.json"), "--new-profile is missing"),
        (("old.json", "new.json", "--config", "old.json"), "TOML"),
        (("old.json", "main:a.json"), "not in a git repository"),
        (("--base", "main", "."), "not in a git repository"),
        (("--base", "main", ".", "--new-cluster", "c.json"), "--new-cluster has no meaning with --base"),
        (("C:\\old.json", "new.json"), "no such file"),
    ],
)
def test_input_errors(octopipe: Octopipe, here: Path, arguments: tuple[str, ...], said: str) -> None:
    result = octopipe("diff", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_what_changed_in_the_inputs(octopipe: Octopipe, here: Path) -> None:
    files = {"p0": profile(), "p1": HEAVIER, "c0": cluster()}
    for name, document in files.items():
        (here / f"{name}.json").write_text(json.dumps(document))
    profiles = ("--old-profile", "p0.json", "--new-profile", "p1.json")
    clusters = ("--old-cluster", "c0.json", "--new-cluster", "c0.json")
    (found,) = changes(octopipe, "old.json", "new.json", *profiles, *clusters).values()
    assert "kind-slower" in found
    swapped = octopipe("diff", "old.json", "new.json", "--old-profile", "p1.json", "--new-profile", "p1.json")
    assert swapped.code == 2
    assert "the plan was made from another profile than p1.json" in swapped.err


def test_a_file_of_a_revision(octopipe: Octopipe, repository: Path) -> None:
    (repository / "plans" / "a.json").write_text(plan_text(sealed_plan(seed=1)))
    for old in ("main:plans/a.json", "HEAD:./plans/a.json", ":plans/a.json"):
        assert changes(octopipe, old, "plans/a.json") == {(old, "plans/a.json"): ["request-changed"]}


def test_a_file_whose_name_has_a_colon_wins(octopipe: Octopipe, repository: Path) -> None:
    (repository / "main:plans").mkdir()
    (repository / "main:plans" / "a.json").write_text(plan_text(sealed_plan(seed=1)))
    (found,) = changes(octopipe, "main:plans/a.json", "plans/a.json").values()
    assert found == ["request-changed"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing:plans/a.json", "no such revision"),
        ("main:plans/c.json", "no such file in main"),
        ("main:plans", "no such file in main"),
        (":plans/c.json", "no such file in the index"),
        ("--upload-pack=x:plans/a.json", "No such option"),
        ("main:plans/package.json", "not the kind of file"),
    ],
)
def test_a_revision_that_is_not_there(octopipe: Octopipe, repository: Path, name: str, said: str) -> None:
    result = octopipe("diff", name, "plans/a.json")
    assert result.code == 2
    assert said in result.err


def test_an_option_is_no_revision(octopipe: Octopipe, repository: Path) -> None:
    for arguments in (("--", "-p:plans/a.json", "plans/a.json"), ("--base=--all", "plans")):
        result = octopipe("diff", *arguments)
        assert result.code == 2
        assert "not a git revision" in result.err


def test_a_folder_against_a_revision(octopipe: Octopipe, repository: Path) -> None:
    plans = repository / "plans"
    assert changes(octopipe, "--base", "main", "plans") == {}
    (plans / "a.json").write_text(plan_text(sealed_plan(seed=1)))
    (plans / "sub" / "b.json").unlink()
    (plans / "c.json").write_text(plan_text(sealed_plan()))
    (plans / "package.json").write_text('{"name": "still not a plan"}')
    (plans / "ignored.json").write_text(plan_text(sealed_plan()))
    (repository / ".gitignore").write_text("ignored.json")
    expected = {
        ("main:plans/a.json", "plans/a.json"): ["request-changed"],
        (None, "plans/c.json"): ["plan-added"],
        ("main:plans/sub/b.json", None): ["plan-removed"],
    }
    assert changes(octopipe, "--base", "main", "plans/") == expected
    assert list(changes(octopipe, "--base", "main", ".")) == list(expected)
    assert list(changes(octopipe, "--base", "main", plans / "a.json", "plans/sub")) == [*expected][::2]


def test_paths_are_seen_from_the_folder_one_is_in(
    octopipe: Octopipe, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "plans" / "a.json").write_text(plan_text(sealed_plan(seed=1)))
    monkeypatch.chdir(repository / "plans" / "sub")
    assert changes(octopipe, "--base", "main", "..") == {("main:plans/a.json", "../a.json"): ["request-changed"]}


@pytest.mark.parametrize(
    ("paths", "text", "said"),
    [
        (("plans",), '{"schema": "octopipe.plan", <<<<<<< HEAD', "not valid JSON"),
        (("plans",), '{"schema": "octopipe.plan", "version": 1}', "is missing"),
        (("plans/a.json",), "{}", "not the kind of file"),
        (("plans", "none"), None, "no such file or folder, neither in main nor here"),
        (("/",), None, "git cannot list the files"),
    ],
)
def test_broken_plans_in_folders_are_errors(
    octopipe: Octopipe, repository: Path, paths: tuple[str, ...], text: str | None, said: str
) -> None:
    if text is not None:
        (repository / "plans" / "a.json").write_text(text)
    result = octopipe("diff", "--base", "main", *paths)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_gate(octopipe: Octopipe, repository: Path) -> None:
    plans = repository / "plans"
    (plans / "a.json").write_text(plan_text(sealed_plan(model=HEAVIER)))
    result = octopipe("diff", "--base", "main", "plans")
    assert result.code == 1
    assert "step-time-slower" in result.out
    assert octopipe("diff", "--base", "main", "plans", "--max-slowdown", "2%").code == 0
    (plans / "a.json").write_text(plan_text(sealed_plan()).replace('"seed": 0', '"seed": 7'))
    result = octopipe("diff", "--base", "main", "plans")
    assert (result.code, "plan-invalid" in result.out) == (1, True)


def settings(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.octopipe.diff]\nmax_slowdown = "2%"\n'),
        ("octopipe.toml", '[diff]\nmax_slowdown = "2%"\n'),
        ("octopipe.toml", '[diff.thresholds]\nstep-time-slower = "2%"\n'),
        ("octopipe.toml", '[diff]\nfail_on = "never"\n'),
    ],
)
def test_settings_of_the_project(
    octopipe: Octopipe, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    settings(here, name, text)
    assert octopipe("diff", "old.json", "new.json").code == 0
    assert octopipe("diff", "old.json", "new.json", "--max-slowdown", "0%", "--fail-on", "regression").code == 1
    settings(here / "below", "x", "")
    monkeypatch.chdir(here / "below")
    assert octopipe("diff", "../old.json", "../new.json").code == 0
    (here / "below" / ".git").mkdir()  # another repository: what is above it is none of its business
    assert octopipe("diff", "../old.json", "../new.json").code == 1
    assert octopipe("diff", "../old.json", "../new.json", "--config", f"../{name}").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.octopipe.diff]\nmax_slowdow = 3\n", "pyproject.toml, $.tool.octopipe.diff.max_slowdow"),
        ("[tool.octopipe.dif]\n", "pyproject.toml, $.tool.octopipe"),
        ("[tool.octopipe\n", "pyproject.toml"),
    ],
)
def test_wrong_settings(octopipe: Octopipe, here: Path, text: str, said: str) -> None:
    settings(here, "pyproject.toml", text)
    result = octopipe("diff", "old.json", "new.json")
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_names_cannot_disturb_a_terminal(octopipe: Octopipe, here: Path) -> None:
    document: dict[str, Any] = profile()
    document["name"] = "\x1b[31mred\u202e"
    (here / "red.json").write_text(plan_text(plan(model=document)))
    result = octopipe("diff", "old.json", "red.json")
    assert "\x1b" not in result.out + result.err
    assert "\u202e" not in result.out + result.err


def test_the_kinds_are_listed(octopipe: Octopipe) -> None:
    result = octopipe("diff", "--kinds")
    assert (result.code, result.err) == (0, "")
    heading, *rows = result.out.splitlines()
    assert heading.split() == ["id", "effect", "threshold", "meaning"]
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == list(KINDS)  # the others go on
    assert "step-time-slower" in result.out
    assert "regression   percent    the predicted step time is longer" in result.out
