"""Workflow commands, read as GitHub's runner reads them (src/Runner.Common/ActionCommand.cs)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.plan import plan_text
from octopipe_cli.render.diff.choose import DiffFormatName, diff_format
from octopipe_cli.render.diff.github import MOST, GithubFormat
from tests.render.diff.reports import HOSTILE, after, every, hostile, many, regression, unchanged

TEXT = plan_text(after())


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Return the level, the properties and the message of a command."""
    match = re.fullmatch(r"::(\w+) ([^\r\n]*?)::([^\r\n]*)", line)
    assert match, line
    properties = dict(part.split("=", 1) for part in match[2].split(","))
    for name, text in properties.items():
        for sign in ":,\r\n%":
            text = text.replace(f"%{ord(sign):02X}", sign)
        properties[name] = text
    message = match[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    return match[1], properties, message


def commands(reports: list[PlanDiff], root: str | None = None) -> list[tuple[str, dict[str, str], str]]:
    return [read(line) for line in GithubFormat(lambda _: TEXT, root).format(reports).splitlines()]


def test_github(golden: Callable[[str, str], None]) -> None:
    golden("github.txt", GithubFormat(lambda _: TEXT).format(every()))


def test_each_carries_file_and_line() -> None:
    (level, properties, message), *others = commands([regression()])
    assert (level, properties["file"], properties["title"]) == (
        "error",
        "plans/toy.plan.json",
        "octopipe step-time-slower",
    )
    assert message == "the step time grows from 555.0 ms to 675.0 ms (+21.6 %)"
    assert '"step_time_ns": 675000000' in TEXT.splitlines()[int(properties["line"]) - 1]
    assert {level for level, _, _ in others} == {"notice"}
    lines = {properties["title"]: int(properties["line"]) for _, properties, _ in commands([many(3)])}
    assert set(lines) == {"octopipe diff", "octopipe order-changed"}
    for _, properties, _ in others:
        if properties["title"] == "octopipe layers-moved":
            assert TEXT.splitlines()[int(properties["line"]) - 1].startswith('    {"layers": ')


def test_levels() -> None:
    found = regression()
    nothing_fails = PlanDiff(found.old_file, found.new_file, found.old, found.new, found.changes, [])
    assert commands([nothing_fails])[0][0] == "warning"
    everything = PlanDiff(found.old_file, found.new_file, found.old, found.new, found.changes[:3], found.changes[:3])
    assert [level for level, _, _ in commands([everything])] == ["error"] * 3 + ["notice"]
    assert commands([unchanged()]) == []


def test_as_many_as_github_shows() -> None:
    found = commands([many(100), regression()])
    by_level = [[message for name, _, message in found if name == level] for level in ("error", "notice")]
    assert [len(messages) for messages in by_level] == [MOST, MOST]
    assert by_level[0][-1] == "42 more: `octopipe diff` lists them all"  # 50 and 1, of which 9 are shown
    assert [message.split(",")[0] for message in by_level[1][:2]] == ["100 changes", "13 changes"]


def test_names_do_no_harm() -> None:
    text = GithubFormat(lambda _: TEXT).format([hostile()])
    assert not {"\x1b", "\r", "\x00", "\u202e"} & set(text)
    for line in text.splitlines():
        level, properties, message = read(line)
        assert set(properties) == {"file", "line", "title"}
        assert level in ("error", "notice")
        assert "##[" not in line or line.startswith("::")
        if properties["title"] != "octopipe diff":
            assert message.startswith("\\x1b[31m|<b>x</b>`@all`\\n::error::x\\r\\n%0A#1")
    assert HOSTILE not in text


def test_files_are_named_as_github_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "plans").mkdir(parents=True)
    (tmp_path / "project" / "plans" / "toy.plan.json").write_text(TEXT)
    monkeypatch.chdir(tmp_path / "project")
    assert {properties["file"] for _, properties, _ in commands(every(), str(tmp_path))} == {
        "project/plans/toy.plan.json",
        "project/plans/new.plan.json",
        "plans/gone.plan.json",  # git's name of it, from the root
    }
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    first, *_ = diff_format(DiffFormatName.github).format([regression()]).splitlines()
    assert read(first)[1]["file"] == os.path.join("project", "plans", "toy.plan.json")
    assert read(first)[1]["line"] != "1"
    monkeypatch.delenv("GITHUB_WORKSPACE")
    (tmp_path / "project" / "plans" / "toy.plan.json").write_bytes(b"\xff")
    first, *_ = diff_format(DiffFormatName.github).format([regression()]).splitlines()
    assert (read(first)[1]["file"], read(first)[1]["line"]) == ("plans/toy.plan.json", "1")
