"""What can be swept, and the values that an option's text names."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from octopipe_cli.errors import InputError

MOST_VALUES: Final = 200

Chart = Literal["step time", "throughput"]


class Quantity(NamedTuple):
    """A quantity that a sweep goes through, from its least value to its largest.

    Attributes
    ----------
    name, unit
        What it is called; its unit, empty for a count.
    meaning
        In words, for tables and charts.
    whole
        Whether its values are whole numbers.
    helps
        Whether a plan for one value holds for larger ones too, so that more of it never makes plans slower.
    same_shape
        Whether plans at all values have the same ranks, so that a search can begin from the plan before.
    chart
        What is drawn against it.
    """

    name: str
    unit: str
    meaning: str
    whole: bool
    helps: bool
    same_shape: bool
    chart: Chart

    @property
    def option(self) -> str:
        """The option that sweeps it."""
        return f"--{self.name}"

    @property
    def axis(self) -> str:
        """What an axis of its values is called."""
        return f"{self.meaning}, {self.unit}" if self.unit else self.meaning

    def text(self, value: Decimal) -> str:
        """Return a value as a number in words: ``40``, ``12.5``."""
        return format(value.normalize(), "f")

    def file_stem(self, value: Decimal) -> str:
        """Return what files of a point are called: ``memory-40``."""
        return f"{self.name}-{self.text(value)}"


MEMORY: Final = Quantity("memory", "GiB", "memory of each rank", False, True, True, "step time")
MICROBATCHES: Final = Quantity("microbatches", "", "micro-batches of a step", True, False, True, "throughput")
RANKS: Final = Quantity("ranks", "", "ranks", True, False, False, "throughput")
STAGES: Final = Quantity("max-stages-per-rank", "", "stages a rank at the most", True, True, True, "step time")
BANDWIDTH: Final = Quantity("bandwidth", "GB/s", "bandwidth of the links", False, True, True, "step time")
QUANTITIES: Final = (MEMORY, MICROBATCHES, RANKS, STAGES, BANDWIDTH)

_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"


def parse_values(text: str, quantity: Quantity) -> list[Decimal]:
    """Return the values that ``40:80:5``, ``1:8`` or ``8,16,32`` names, ascending, each once.

    A range ends with its last value where a step reaches it; without a step it goes by 1.

    Raises
    ------
    InputError
        Where the text is neither, a value is not above 0 or not whole where it must be, or there are too many.
    """
    compact = text.replace(" ", "")
    if re.fullmatch(rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?", compact, re.ASCII):
        values = _range([Decimal(part) for part in compact.split(":")], quantity, text)
    elif re.fullmatch(rf"{_NUMBER}(?:,{_NUMBER})*", compact, re.ASCII):
        values = sorted({Decimal(part) for part in compact.split(",")})
    else:
        raise _refused(quantity, text)
    if len(values) > MOST_VALUES:
        raise InputError(
            "too many values", path=quantity.option, found=str(len(values)), expected=f"at most {MOST_VALUES}"
        )
    if values[0] <= 0 or (quantity.whole and any(value % 1 for value in values)):
        raise _refused(quantity, text)
    return values


def _range(parts: list[Decimal], quantity: Quantity, text: str) -> list[Decimal]:
    first, last, step = (*parts, Decimal(1))[:3]
    if step <= 0 or last < first:
        raise _refused(quantity, text)
    count = int((last - first) / step) + 1
    return [first + number * step for number in range(min(count, MOST_VALUES + 1))]


def _refused(quantity: Quantity, text: str) -> InputError:
    numbers = "whole numbers" if quantity.whole else f"numbers of {quantity.unit}"
    return InputError(
        f"{quantity.option} has no values to go through",
        path=quantity.option,
        found=text,
        expected=f"{numbers} above 0: first:last:step (40:80:5), or a list (8,16,32)",
    )
