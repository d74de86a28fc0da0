"""The pages of ``octopipe help``: plain, narrow, and true of the code."""

from __future__ import annotations

import re

import pytest

from octopipe_cli import errors
from octopipe_cli.cli.manual import PAGES, page
from octopipe_cli.cli.registry import ROOT
from octopipe_cli.cli.shells.tree import nodes
from octopipe_cli.engines import ENGINES
from octopipe_cli.export import TARGETS
from tests.cli.conftest import Octopipe


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_plain_and_narrow(octopipe: Octopipe, name: str) -> None:
    result = octopipe("help", name)
    assert (result.code, result.err) == (0, "")
    assert result.out.isascii()
    assert max(map(len, result.out.splitlines())) <= 80
    assert not re.search(r"[ \t]$|\t|\{(engines|targets)\}", result.out, re.MULTILINE)


def test_the_pages_are_listed(octopipe: Octopipe) -> None:
    result = octopipe("help")
    assert [line.split()[2] for line in result.out.splitlines()] == list(PAGES)
    assert "octopipe help exit-codes   What a command leaves with\n" in result.out


def test_every_exit_code_is_told() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^ {2,4}(\d+)  ", page("exit-codes"), re.MULTILINE)} == codes


def test_every_engine_and_target_is_told() -> None:
    text = page("engines")
    for engine in ENGINES.values():
        assert f"\n{engine.name}\n  runs it    {engine.description}\n" in text
    for target in TARGETS:
        assert f"  {target.name} " in text


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_options_that_a_page_names_exist(name: str) -> None:
    text = " ".join(page(name).split())
    flags = {flag for node in nodes() for each in node.flags for flag in each.names}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) <= flags
    assert set(re.findall(r"`octopipe (\w+)", text)) <= set(ROOT.commands)


@pytest.mark.parametrize("command", [("plan",), ("profile", "import", "trace"), ("profile",), ("help",)])
def test_a_command_s_help_is_a_topic_too(octopipe: Octopipe, command: tuple[str, ...]) -> None:
    assert octopipe("help", *command) == octopipe(*command, "--help")


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        (("semntics",), 'did you mean "semantics"?'),
        (("plna",), 'did you mean "plan"?'),
        (("zzz",), "`octopipe help` lists the pages"),
        (("semantics", "files"), "no page or command"),
        (("profile", "shw"), 'did you mean "show"?'),
    ],
)
def test_no_such_topic(octopipe: Octopipe, topic: tuple[str, ...], told: str) -> None:
    result = octopipe("help", *topic)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
