"""Micro-batches that differ: what their lengths make of a layer's times and bytes (formats.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile

#: The length of one micro-batch in each modality of the profile; 1 is the profile's own.
MicroBatch = Mapping[str, float]


def scaled_ns(time_ns: int, quadratic_share: float, length: float) -> int:
    """Return a layer's time at a length: the nearest ns to t ((1 - q) r + q r^2)."""
    if length == 1:
        return time_ns
    return round(time_ns * ((1 - quadratic_share) * length + quadratic_share * length * length))


def scaled_bytes(size: int, length: float) -> int:
    """Return a size at a length: the nearest to r times it."""
    return size if length == 1 else round(size * length)


@dataclass(frozen=True)
class Lengths:
    """The lengths of a step's micro-batches, in the order in which a plan counts them.

    Attributes
    ----------
    microbatches
        For each micro-batch its length in every modality of the profile.
    order
        Which numbers of the lists they are; None where in the lists' own order.
    """

    microbatches: tuple[MicroBatch, ...]
    order: tuple[int, ...] | None = None

    def ordered(self, order: Sequence[int]) -> Lengths:
        """Return the lengths in another order of the lists; None in `order` is the lists' own."""
        given = self.microbatches
        if self.order is not None:
            given = tuple(given[self.order.index(m)] for m in range(len(given)))
        kept = tuple(order)
        own = kept == tuple(range(len(given)))
        return Lengths(tuple(given[m] for m in kept), None if own else kept)

    def distinct(self) -> list[int]:
        """Return for each micro-batch the first one that is like it."""
        first: dict[tuple[float, ...], int] = {}
        return [first.setdefault(tuple(entry.values()), m) for m, entry in enumerate(self.microbatches)]


def lengths_of(profile: Profile, lists: Mapping[str, Sequence[float]] | None, number: int) -> Lengths | None:
    """Return the lengths that lists by modality give a profile's layers; None where all are 1."""
    if lists is None:
        return None
    modalities = sorted({kind.modality for kind in profile.kinds.values()})
    found = tuple({name: float(lists[name][m]) if name in lists else 1.0 for name in modalities} for m in range(number))
    alike = all(length == 1 for entry in found for length in entry.values())
    return None if alike else Lengths(found)


def request_lengths(profile: Profile, request: Request) -> Lengths | None:
    """Return the lengths a request asks for, in the order of its lists."""
    return lengths_of(profile, request.lengths, request.num_microbatches)


def growth(microbatches: Iterable[MicroBatch]) -> float:
    """Return a factor by which lengths make no time or size larger: a square at the most."""
    longest = max((length for microbatch in microbatches for length in microbatch.values()), default=1.0)
    return max(1.0, longest, longest * longest)
