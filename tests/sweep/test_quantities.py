"""Values that an option names."""

from __future__ import annotations

from decimal import Decimal

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.sweep.quantities import BANDWIDTH, MEMORY, MICROBATCHES, STAGES, Quantity, parse_values


@pytest.mark.parametrize(
    ("text", "quantity", "values"),
    [
        ("40:80:20", MEMORY, ["40", "60", "80"]),
        ("40:79:20", MEMORY, ["40", "60"]),
        ("0.1:0.5:0.1", MEMORY, ["0.1", "0.2", "0.3", "0.4", "0.5"]),
        ("12.5:200:62.5", BANDWIDTH, ["12.5", "75", "137.5", "200"]),
        ("1:4", STAGES, ["1", "2", "3", "4"]),
        ("32, 8,16,8", MICROBATCHES, ["8", "16", "32"]),
        ("8", MICROBATCHES, ["8"]),
        ("40.00", MEMORY, ["40"]),
    ],
)
def test_ranges_and_lists(text: str, quantity: Quantity, values: list[str]) -> None:
    found = parse_values(text, quantity)
    assert [quantity.text(value) for value in found] == values
    assert found == sorted(map(Decimal, values))


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        *(("80:40:5", MEMORY), ("40:80:0", MEMORY), ("0:10:5", MEMORY), ("", MEMORY), ("a", MEMORY), ("-1", MEMORY)),
        *(("1e3", MEMORY), ("40:80:5:1", MEMORY), ("1,,2", MEMORY), ("٤", MEMORY), ("nan", MEMORY)),
        *(("8.5", MICROBATCHES), ("1:4:0.5", STAGES), ("0", STAGES)),
    ],
)
def test_what_names_no_values(text: str, quantity: Quantity) -> None:
    with pytest.raises(InputError, match="has no values to go through") as caught:
        parse_values(text, quantity)
    assert (caught.value.path, caught.value.found) == (quantity.option, text)


def test_too_many_values() -> None:
    with pytest.raises(InputError, match="too many"):
        parse_values("1:999999999:0.001", MEMORY)
    assert len(parse_values("1:200", MEMORY)) == 200
