"""``plan --check``, ``--check-all`` and ``verify --fresh``: what is unchanged, stale, invalid, or cannot be told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopipe_cli import __version__, search
from octopipe_cli.plan import Plan, content_digest, load_plan, plan_text, sealed
from tests.cli.conftest import Octopipe
from tests.cli.test_start import HEAVY, LOADED
from tests.editing import edited

CHECK = ("plan", "profile.json", "cluster.json", "--check", "plan.json")
VERIFY = ("verify", "plan.json", "--profile", "profile.json", "--cluster", "cluster.json", "--fresh")


class Again:
    """In place of the search: notes its requests and finds what it is given."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.requests: list[Any] = []
        self.warm: list[Any] = []

    def make_plan(self, profile: Any, cluster: Any, request: Any, **rest: Any) -> Plan:
        self.requests.append(request)
        self.warm.append(rest["warm"])
        return self.plan


@pytest.fixture
def again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """Seal the example plan as if this version had made it; searches find it again."""
    plan = msgspec.structs.replace(load_plan("plan.json").value, created_by=f"octopipe {__version__}")
    made = Again(sealed(plan))
    monkeypatch.setattr(search, "make_plan", made.make_plan)
    Path("plan.json").write_text(plan_text(made.plan))
    return made


def edit(changes: dict[str, Any], file: str = "plan.json") -> None:
    path = Path(file)
    path.write_text(json.dumps(edited(json.loads(path.read_text()), changes)))


@pytest.mark.parametrize("command", [CHECK, VERIFY], ids=["check", "fresh"])
def test_an_unchanged_plan_needs_no_search(octopipe: Octopipe, again: Again, command: tuple[str, ...]) -> None:
    assert octopipe(*command) == (0, "plan.json: unchanged\n", "")
    assert json.loads(octopipe(*command, "--format", "json").out) == {
        "plan": "plan.json",
        "state": "unchanged",
        "remarks": [],
    }
    assert again.requests == []


def test_where_nothing_is_searched_for_nothing_heavy_is_loaded(again: Again) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *CHECK], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.split()
    assert code == "0"
    assert not set(modules) & HEAVY


@pytest.mark.parametrize(
    "changes",
    [
        {"created_by": "octopipe 0.0.1"},
        {"content_digest": None},
    ],
    ids=["another-version", "no-digest"],
)
def test_where_an_edit_would_not_show_the_plan_is_made_again(
    octopipe: Octopipe, again: Again, changes: dict[str, Any]
) -> None:
    plan = msgspec.structs.replace(again.plan, **changes)
    if "created_by" in changes:
        plan = sealed(plan)
    Path("plan.json").write_text(plan_text(plan))
    assert octopipe(*CHECK) == (0, "plan.json: unchanged\n", "")
    assert again.requests == [again.plan.request]


@pytest.mark.parametrize("command", [CHECK, VERIFY], ids=["check", "fresh"])
def test_other_inputs_make_it_stale(octopipe: Octopipe, again: Again, command: tuple[str, ...]) -> None:
    edit({"kinds.head.times.a100.forward_ms": 9.0}, "profile.json")
    predicted = msgspec.structs.replace(again.plan.predicted, step_time_ns=27_000_000)
    again.plan = msgspec.structs.replace(again.plan, predicted=predicted)
    result = octopipe(*command)
    assert (result.code, result.err) == (1, "")
    first, *changes = result.out.splitlines()
    assert first == "plan.json: stale, its inputs give another plan now"
    assert any(change.startswith("  step-time-slower, $.predicted.step_time_ns: ") for change in changes)
    assert again.requests == [again.plan.request]


@pytest.mark.parametrize(
    "changes",
    [
        {"baseline": {"schedule": "1f1b", "step_time_ns": 52_000_000, "speedup": 2.0}},
        {"bound.scope": "any plan on earth"},
        {"search.stopped_by": "bound"},
        {"request.seed": 7},
        {"created_by": "octopipe 9"},
        {"predicted.step_time_ns": 25_000_000},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("inputs", ["same", "other"])
def test_an_edit_by_hand_is_not_valid(octopipe: Octopipe, again: Again, changes: dict[str, Any], inputs: str) -> None:
    if inputs == "other":
        edit({"kinds.head.times.a100.forward_ms": 9.0}, "profile.json")
    edit(changes)
    result = octopipe(*CHECK)
    assert (result.code, result.err) == (1, "")
    assert result.out.startswith("plan.json: not valid\n")
    assert "content-digest, $.content_digest: " in result.out
    assert again.requests == []


def test_an_edit_of_a_plan_without_a_digest_fails_by_its_figures(octopipe: Octopipe, again: Again) -> None:
    plan = msgspec.structs.replace(again.plan, content_digest=None)
    Path("plan.json").write_text(plan_text(plan))
    edit({"predicted.step_time_ns": 25_000_000})
    edit({"kinds.head.times.a100.forward_ms": 9.0}, "profile.json")
    result = octopipe(*CHECK)
    assert (result.code, result.out.splitlines()[0]) == (1, "plan.json: not valid")
    assert "figures, $.predicted.step_time_ns: predicts a step time of 25000000 ns" in result.out


def test_provenance_is_nobody_s_business(octopipe: Octopipe, again: Again) -> None:
    edit({"provenance": {"note": "reviewed"}})
    assert octopipe(*CHECK).code == 0


def test_what_cannot_be_told(octopipe: Octopipe, again: Again) -> None:
    for missing in (("none.json", "cluster.json"), ("profile.json", "none.json")):
        assert octopipe("plan", *missing, "--check", "plan.json").code == 2
    assert octopipe("plan", "profile.json", "cluster.json", "--check", "none.json").code == 2
    cut = msgspec.structs.replace(again.plan.search, stopped_by="time limit", reproducible=False)
    Path("plan.json").write_text(plan_text(sealed(msgspec.structs.replace(again.plan, search=cut))))
    for command in (CHECK, VERIFY):
        result = octopipe(*command)
        assert (result.code, result.out) == (2, "")
        assert "cannot be made again: its search was ended by the time limit" in result.err


def test_inputs_without_a_plan_make_it_stale(octopipe: Octopipe, again: Again) -> None:
    edit({"ranks": [{"count": 40, "hardware": "a100", "memory_gib": None}]}, "cluster.json")
    result = octopipe(*CHECK)
    assert result.code == 1
    assert "there is no plan any more: more ranks than layers" in result.out


def test_options_that_contradict_the_plan(octopipe: Octopipe, again: Again) -> None:
    assert octopipe(*CHECK, "-m", 2, "--effort", again.plan.request.effort, "--jobs", 2).code == 0
    for flags in (("-m", 4), ("--seed", 1), ("--effort", "quick"), ("--objective", "span"), ("-o", "x.json")):
        result = octopipe(*CHECK, *flags)
        assert (result.code, result.out) == (2, "")
        assert "--" in result.err.splitlines()[0]


SETTINGS = '"plan.json" = { profile = "profile.json", cluster = "cluster.json" }\n'


@pytest.mark.parametrize(("file", "table"), [("pyproject.toml", "tool.octopipe.plans"), ("octopipe.toml", "plans")])
def test_plans_that_the_settings_name(
    octopipe: Octopipe, again: Again, monkeypatch: pytest.MonkeyPatch, file: str, table: str
) -> None:
    Path(file).write_text(f"[{table}]\n{SETTINGS}")
    assert octopipe("plan", "--check", "plan.json") == (0, "plan.json: unchanged\n", "")
    assert octopipe("plan", "--check-all") == (0, "plan.json: unchanged\n", "")
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    assert octopipe("plan", "--check-all") == (0, "../../plan.json: unchanged\n", "")
    assert octopipe("plan", "--check", "../../plan.json").code == 0


def test_all_plans_are_checked_whatever_becomes_of_one(octopipe: Octopipe, again: Again) -> None:
    lines = "".join(SETTINGS.replace("plan.json", name) for name in ("none.json", "plan.json", "edited.json"))
    Path("octopipe.toml").write_text(f"[plans]\n{lines}")
    Path("edited.json").write_text(plan_text(msgspec.structs.replace(again.plan, created_by="me")))
    result = octopipe("plan", "--check-all")
    assert result.code == 2
    assert [line for line in result.out.splitlines() if not line.startswith(" ")] == [
        "none.json: no such file",
        "plan.json: unchanged",
        "edited.json: not valid",
    ]
    listed = json.loads(octopipe("plan", "--check-all", "--format", "json").out)
    assert [entry["state"] for entry in listed] == ["error", "unchanged", "invalid"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[plans", "no TOML"),
        ("[plnas]\n", 'did you mean "plans"'),
        ("plans = 3\n", "not a table"),
        ('[plans]\n"plan.json" = "profile.json"\n', "not a table"),
        ('[plans]\n"plan.json" = { profile = "profile.json" }\n', '"cluster" is missing'),
        ('[plans]\n"plan.json" = { profile = "profile.json", cluster = 3 }\n', "not a file's name"),
        ('[plans]\n"plan.json" = { profle = "profile.json", cluster = "cluster.json" }\n', '"profile"'),
        ("", "no settings name a plan"),
    ],
)
def test_settings_that_cannot_be_used(octopipe: Octopipe, again: Again, text: str, word: str) -> None:
    Path("octopipe.toml").write_text(text)
    result = octopipe("plan", "--check-all")
    assert (result.code, result.out) == (2, "")
    assert word in result.err


def test_a_plan_that_began_from_another_needs_that_one(octopipe: Octopipe, again: Again) -> None:
    old = load_plan("plan.json")
    Path("old.json").write_text(plan_text(old.value))
    request = msgspec.structs.replace(old.value.request, warm_start=old.digest, stability_percent=2.0)
    again.plan = sealed(msgspec.structs.replace(old.value, request=request))
    Path("plan.json").write_text(plan_text(again.plan))
    for command in (CHECK, VERIFY):
        result = octopipe(*command)
        assert (result.code, result.out) == (2, "")
        assert "give the older plan: --warm-start PLAN" in result.err
        result = octopipe(*command, "--warm-start", "plan.json")
        assert (result.code, "the plan was not made from this one" in result.err) == (2, True)
        assert octopipe(*command, "--warm-start", "old.json").code == 0
    assert octopipe(*CHECK, "--warm-start", "old.json", "--stability", "2%").code == 0
    assert octopipe(*CHECK, "--warm-start", "old.json", "--stability", "1%").code == 2
    entry = SETTINGS.replace(" }", ', warm_start = "old.json" }')
    Path("octopipe.toml").write_text(f"[plans]\n{entry}")
    assert octopipe("plan", "--check-all").code == 0
    edit({"kinds.head.times.a100.forward_ms": 9.0}, "profile.json")
    assert octopipe(*CHECK, "--warm-start", "old.json").code == 0  # the stand-in finds the same plan again
    assert again.warm == [load_plan("old.json")]


def test_a_plan_that_began_from_none_takes_none(octopipe: Octopipe, again: Again) -> None:
    assert octopipe(*CHECK, "--warm-start", "plan.json").code == 2
    assert octopipe(*VERIFY[:-1], "--warm-start", "plan.json").code == 2


def test_names_from_the_settings_do_not_reach_the_terminal_as_they_are(octopipe: Octopipe, again: Again) -> None:
    Path("octopipe.toml").write_text("[plans]\n" + SETTINGS.replace("plan.json", "\\u001b[31mred"))
    assert "\x1b" not in "".join(map(str, octopipe("plan", "--check-all")))


def test_usage(octopipe: Octopipe, again: Again) -> None:
    for arguments in (
        ("plan", "profile.json", "--check", "plan.json"),
        ("plan", "--check", "plan.json"),
        ("plan", "profile.json", "cluster.json", "--check-all"),
        ("plan", "--check-all", "--check", "plan.json"),
    ):
        assert octopipe(*arguments).code == 2


def test_the_digest_is_of_all_but_provenance(again: Again) -> None:
    plan = again.plan
    assert content_digest(plan) == plan.content_digest
    assert content_digest(msgspec.structs.replace(plan, provenance={"a": 1})) == plan.content_digest
    assert content_digest(msgspec.structs.replace(plan, created_by="octopipe 9")) != plan.content_digest
