"""Orders of micro-batches that differ, for the search to begin from."""

from __future__ import annotations

from octopipe_cli.lengths import request_lengths
from octopipe_cli.plan import Request
from octopipe_cli.profile import Kind, Profile


def microbatch_orders(profile: Profile, request: Request) -> list[tuple[int, ...]]:
    """Return orders of the micro-batches by what they cost, the lists' own first; that alone where it is to be kept.

    Where micro-batches are alike there is one, an empty one. The others: ascending, descending, the longest in the
    middle, the longest at both ends, short and long by turns.
    """
    number = request.num_microbatches
    own = tuple(range(number))
    lengths = request_lengths(profile, request)
    if lengths is None:
        return [()]
    if request.keep_order:
        return [own]
    costs = [
        sum(_cost(kind, at.get(kind.modality, 1)) for kind in map(profile.kind_of, range(profile.num_layers)))
        for at in lengths.microbatches
    ]
    up = sorted(own, key=lambda m: (costs[m], m))
    middle = up[::2] + up[1::2][::-1]
    ends = up[::-1][::2] + up[::-1][1::2][::-1]
    turns = [(up[::-1] if at % 2 else up)[at // 2] for at in range(number)]
    return list(dict.fromkeys([own, tuple(up), tuple(up[::-1]), tuple(middle), tuple(ends), tuple(turns)]))


def _cost(kind: Kind, length: float) -> float:
    """Return what a layer's work for a micro-batch weighs: its time, on the first hardware it has times for."""
    times = next(iter(kind.times.values()))
    whole = times.forward_ms + times.backward_input_ms + times.backward_weight_ms
    return whole * ((1 - kind.quadratic_share) * length + kind.quadratic_share * length * length)
