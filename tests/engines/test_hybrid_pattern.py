from __future__ import annotations

import pytest

from octopipe_cli.engines.hybrid_pattern import Pattern, pattern_problems, read_pattern, write_pattern
from octopipe_cli.engines.megatron_layout import LayoutSyntaxError

FOUR = "M-M-M-M*-M-|M-M-M*-M-M-|M-M*-M-M-M-|M*-M-M-M-M-"


def judged(text: str, ranks: int, layers: int | None = None, mtp: int | None = None) -> list[str]:
    try:
        return [problem.rule for problem in pattern_problems(read_pattern(text), ranks, layers, mtp)]
    except LayoutSyntaxError as error:
        return [error.problem.rule]


@pytest.mark.parametrize(
    ("text", "ranks", "layers"),
    [
        (FOUR, 4, 44),
        (FOUR, 2, 44),
        ("M-M-|M-M*-/MM/MM", 2, 9),
        ("MMM|M|MMMMM", 3, 9),
        ("||M*", 3, 2),
        ("*-*|-*-", 2, 6),
    ],
)
def test_patterns_megatron_takes(text: str, ranks: int, layers: int) -> None:
    assert judged(text, ranks, layers) == []
    assert write_pattern(*read_pattern(text)) == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("M*M*/MM/M", "mtp-alike"),
        ("M|M/M|M", "mtp-cut"),
        ("M+*M", "attention"),
        ("MD*M", "attention"),
        ("MXM", "symbol"),
        ("M M", "symbol"),
        ("MM/", "mtp-empty"),
        ("M|M|M", "stages"),
        ("MMM", "stages"),
        ("|", "layers"),
    ],
)
def test_patterns_it_refuses(text: str, rule: str) -> None:
    assert judged(text, 2) == [rule]


def test_counts_are_compared_where_given() -> None:
    assert judged("MM|M-/*-", 2, 4, 1) == []
    assert judged("MM|M-/*-", 2, 3, 2) == ["layers", "mtp-layers"]


def test_stages_and_depths() -> None:
    assert read_pattern("MEMEM*E|MEMEM*E/*E/*E") == Pattern(("MEMEM*E", "MEMEM*E"), ("*E", "*E"))
    assert read_pattern("MMM|M|MMMMM").on_ranks(3) == ("MMM", "M", "MMMMM")
    assert read_pattern("M-M-").on_ranks(2) == ("M-", "M-")  # split evenly
