from __future__ import annotations

import pytest

from octopipe_cli.words import (
    count_text,
    decimal_text,
    gibibyte_text,
    kinds_text,
    percent_text,
    size_text,
    time_column,
    time_text,
    visible,
)


@pytest.mark.parametrize(
    ("numerator", "denominator", "digits", "text"),
    [
        (1, 3, 3, "0.333"),
        (2, 3, 3, "0.667"),
        (1, 8, 2, "0.12"),  # halves to even
        (3, 8, 2, "0.38"),
        (5, 2, 0, "2"),
        (-5, 4, 1, "-1.2"),
        (-1, 1000, 1, "0.0"),  # no minus before a zero
        (10**30 + 1, 10**30, 1, "1.0"),
        (7, 1, 0, "7"),
    ],
)
def test_decimals_are_exact(numerator: int, denominator: int, digits: int, text: str) -> None:
    assert decimal_text(numerator, denominator, digits) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (27, "27 ns"),
        (9_999, "9999 ns"),
        (12_345, "12.34 µs"),
        (123_456, "0.123 ms"),
        (8_660_400, "8.660 ms"),
        (86_604_000, "86.60 ms"),
        (866_040_000, "866.0 ms"),
        (99_999_000_000, "99999.0 ms"),
        (123_456_000_000, "123.5 s"),
    ],
)
def test_times_have_about_four_digits(time_ns: int, text: str) -> None:
    assert time_text(time_ns) == text


def test_a_column_of_times_shares_unit_and_decimals() -> None:
    assert time_column([123_456_789, 1_000_000, 0]) == ("ms", ["123.5", "1.0", "0.0"])
    assert time_column([]) == ("ns", [])


def test_other_numbers() -> None:
    assert percent_text(1, 3) == "33.3"
    assert percent_text(0, 0) == "0.0"
    assert gibibyte_text(3 * 2**29) == "1.5"
    assert gibibyte_text(-(2**28), 2) == "-0.25"
    assert [count_text(n) for n in (0, 999, 1_500, 147_374_080, 8_886_000_000)] == [
        "0",
        "999",
        "1.500 K",
        "147.4 M",
        "8.886 B",
    ]
    assert [size_text(n) for n in (0, 1023, 1024, 36700160, 10569646080)] == [
        "0",
        "1023 B",
        "1.000 KiB",
        "35.00 MiB",
        "9.844 GiB",
    ]


def test_names_cannot_steer_a_terminal() -> None:
    assert visible("a\x1b[31mb\n\x7f\u202ec\u2028") == "a\\x1b[31mb\\n\\x7f\\u202ec\\u2028"
    assert visible("größe 模型") == "größe 模型"
    assert visible("größe 模", ascii_only=True) == "gr\\xf6\\xdfe \\u6a21"


def test_kinds_are_counted() -> None:
    assert kinds_text(["embedding"]) == "embedding"
    assert kinds_text(["mlp", "mlp"]) == "2xmlp"
    assert kinds_text(["embedding", *["mamba", "mlp"] * 3, "head"]) == "embedding, 3x(mamba, mlp), head"
    assert kinds_text([]) == ""
