"""Numbers and names as text: exact decimals, units, names that cannot disturb a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from octopipe_cli.profile import compress, expand

if TYPE_CHECKING:
    from octopipe_cli.simulate import Timeline

GIBIBYTE: Final = 2**30


class Unit(NamedTuple):
    """A unit of time: its name and how many powers of ten of a nanosecond it has."""

    name: str
    power: int


SECOND, MILLISECOND, MICROSECOND, NANOSECOND = Unit("s", 9), Unit("ms", 6), Unit("µs", 3), Unit("ns", 0)


def decimal_text(numerator: int, denominator: int, digits: int) -> str:
    """Return numerator / denominator with so many decimals, halves to even, without passing through a float."""
    quotient, rest = divmod(abs(numerator) * 10**digits, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and quotient % 2):
        quotient += 1
    text = str(quotient).zfill(digits + 1)
    if digits:
        text = f"{text[:-digits]}.{text[-digits:]}"
    return f"-{text}" if numerator < 0 and quotient else text


def unit_of(longest_ns: int) -> Unit:
    """Return the unit in which times up to the given one read best."""
    for unit, least_ns in ((SECOND, 10**11), (MILLISECOND, 10**5), (MICROSECOND, 10**4)):
        if longest_ns >= least_ns:
            return unit
    return NANOSECOND


def _digits(amount: int, one: int) -> int:
    """Return how many decimals leave four digits or so: 866.0, 86.60, 8.660."""
    return 1 if amount >= 100 * one else 2 if amount >= 10 * one else 3


def time_text(time_ns: int) -> str:
    """Return a time with its unit and about four digits: ``866.0 ms``."""
    unit = unit_of(time_ns)
    one = 10**unit.power
    return f"{decimal_text(time_ns, one, _digits(time_ns, one) if unit.power else 0)} {unit.name}"


def time_column(times_ns: Iterable[int]) -> tuple[str, list[str]]:
    """Return the unit's name and each time as a number in it, all with the same decimals."""
    times = list(times_ns)
    longest = max(times, default=0)
    unit = unit_of(longest)
    one = 10**unit.power
    digits = _digits(longest, one) if unit.power else 0
    return unit.name, [decimal_text(time, one, digits) for time in times]


def percent_text(part: int, whole: int, digits: int = 1) -> str:
    """Return part of whole in per cent, without the sign; 0 of nothing is 0."""
    return decimal_text(100 * part, whole or 1, digits)


def gibibyte_text(size_bytes: int, digits: int = 1) -> str:
    """Return bytes in GiB, without the unit."""
    return decimal_text(size_bytes, GIBIBYTE, digits)


def count_text(count: int) -> str:
    """Return a large count in words of four digits or so: ``8.894 B``, ``147.4 M``."""
    for one, name in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= one:
            return f"{decimal_text(count, one, _digits(count, one))} {name}"
    return str(count)


def size_text(size_bytes: int) -> str:
    """Return a size with the binary unit in which it reads best: ``9.844 GiB``, ``35.00 MiB``."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 2**power:
            return f"{decimal_text(size_bytes, 2**power, _digits(size_bytes, 2**power))} {name}"
    return f"{size_bytes} B" if size_bytes else "0"


def visible(name: str, ascii_only: bool = False) -> str:
    """Return a name from a file as it can be shown: control, format and unassigned characters escaped."""
    text = "".join(_escaped(c) if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" else c for c in name)
    return text.encode("ascii", "backslashreplace").decode("ascii") if ascii_only else text


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def kinds_text(kinds: Iterable[str]) -> str:
    """Return layer kinds in words, repetitions counted: ``embedding, 3x(mamba, mlp), 2xattention``."""
    return _listing(compress(tuple(kinds)))


def stage_kinds(kinds: Any) -> tuple[str, ...]:
    """Return the kinds of a plan's stage, groups written out."""
    return tuple(expand(kinds))


def _listing(items: list[Any]) -> str:
    parts = []
    for item, alike in groupby(items):
        count = len(list(alike))
        if isinstance(item, dict):
            count *= item["repeat"]
            inner = _listing(item["of"])
            text = f"({inner})" if len(item["of"]) > 1 else inner
        else:
            text = item
        parts.append(text if count == 1 else f"{count}x{text}")
    return ", ".join(parts)


def with_memory(timeline: Timeline) -> bool:
    """Return whether there is memory to speak of: a profile without bytes on ranks without limits leaves nothing."""
    return any(timeline.peak_memory_bytes) or any(limit is not None for limit in timeline.pipeline.limit_bytes)
