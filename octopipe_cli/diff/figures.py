"""Two figures side by side, in words that show their difference however small it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Final

from octopipe_cli.words import decimal_text, gibibyte_text, size_text, time_text

#: Details listed of a change; the rest is counted.
MOST_DETAILS: Final = 40


def pair(old: int, new: int, text: Callable[[int], str], unit: str) -> tuple[str, str]:
    """Return both as text; in the whole unit where they differ and their short texts do not."""
    before, after = text(old), text(new)
    return (f"{old} {unit}", f"{new} {unit}") if before == after and old != new else (before, after)


def from_to(old: int, new: int, text: Callable[[int], str], unit: str) -> str:
    """Return ``866.0 ms to 870.1 ms (+0.47 %)``."""
    before, after = pair(old, new, text, unit)
    return f"{before} to {after}{_percent(old, new)}"


def times(old_ns: int, new_ns: int) -> str:
    """Return two times and their difference in words."""
    return from_to(old_ns, new_ns, time_text, "ns")


def sizes(old_bytes: int, new_bytes: int) -> str:
    """Return two sizes and their difference in words."""
    return from_to(old_bytes, new_bytes, size_text, "bytes")


def ratios(old: float, new: float) -> str:
    """Return two ratios in per cent: ``2.1 % to 2.4 %``, with as many decimals as it takes to tell them apart."""
    a, b = Fraction(old) * 100, Fraction(new) * 100
    for digits in (1, 2, 4, 8):
        before = decimal_text(a.numerator, a.denominator, digits)
        after = decimal_text(b.numerator, b.denominator, digits)
        if before != after:
            break
    return f"{before} % to {after} %"


def headroom(size_bytes: int) -> str:
    """Return what is left of a memory limit, in GiB; negative where it is exceeded."""
    return f"{gibibyte_text(size_bytes, 2)} GiB"


def change_in_percent(old: float, new: float) -> str:
    """Return ``+0.47 %``; empty where there is nothing to compare with."""
    if not old:
        return ""
    part, whole = (Fraction(new) - Fraction(old)) * 100, Fraction(old)
    ratio = part / whole
    for digits in (1, 2, 4):
        if abs(ratio) * 10**digits >= 10:
            break
    text = decimal_text(ratio.numerator, ratio.denominator, digits)
    if not text.strip("-0."):
        return f"{'-' if ratio < 0 else '+'}0.0000 %"
    return f"{text if ratio < 0 else '+' + text} %"


def _percent(old: int, new: int) -> str:
    text = change_in_percent(old, new)
    return f" ({text})" if text else ""


def listed(lines: Iterable[str]) -> tuple[str, ...]:
    """Return details, cut to what a reviewer takes in."""
    every = tuple(lines)
    if len(every) <= MOST_DETAILS:
        return every
    return (*every[: MOST_DETAILS - 1], f"and {len(every) - MOST_DETAILS + 1} more")


def span_text(noun: str, first: int, last: int) -> str:
    """Return ``layer 3`` or ``layers 3-5``."""
    return f"{noun} {first}" if first == last else f"{noun}s {first}-{last}"
