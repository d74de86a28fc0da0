"""What a search tells whoever watches it."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """Where a search stands.

    Attributes
    ----------
    phase
        What is being done, for people.
    best_ns, bound_ns
        The best plan's step time (with objective span its span) so far, and the certified lower bound; None while
        there is none.
    candidates
        Partitions and placements tried so far.
    seconds
        Wall time since the search began.
    """

    phase: str
    best_ns: int | None
    bound_ns: int | None
    candidates: int
    seconds: float
