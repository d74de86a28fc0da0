"""Warm-up and cool-down in the relaxation: what memory lets a rank do before the first gradient, after the last F.

No I or B starts anywhere before `first`: one micro-batch has passed all layers then. No F runs anywhere later than
`after` before the end: its micro-batch goes all the way back. So

* of the work a rank does before `first`, forwards alone, all that was begun is held at once;
* of the work it does in the last `after`, I, B and W alone, all that was open is held at once;
* the rest of its work needs the time between.

The two never overlap: `first + after` is no longer than one micro-batch's path. Past a rank's deepest layer the
micro-batch is on its way still longer, there and back; that is added only where the step is known to be long enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from octopipe_cli.search.atoms import AtomTable
    from octopipe_cli.search.relaxed_model import Relaxation

MEBIBYTE: Final = 2**20


def memory_at_the_turns(relaxation: Relaxation) -> None:
    """Add, for each position, the time it needs before the first gradient, between, and after the last forward."""
    table, model = relaxation.table, relaxation.model
    around = relaxation.openings(table.num_ranks - 1) + relaxation.ticks(table.overhead_ns)
    there = relaxation.through("forward") + around
    back = relaxation.through("gradient") + around + relaxation.last_weights()
    far = _longest_ns(relaxation) <= relaxation.least * relaxation.unit
    most = relaxation.most_ns() // relaxation.unit
    for j in relaxation.positions:
        first = there + (relaxation.beyond(j, "gradient") if far else 0)
        after = back + (relaxation.beyond(j, "forward") if far else 0)
        begun, left = _Held(relaxation, j).work()
        early, late = model.new_int_var(0, most, f"early{j}"), model.new_int_var(0, most, f"late{j}")
        model.add(early <= begun)
        model.add(late <= left)
        model.add(early <= first - relaxation.start(j) + relaxation.loose)
        model.add(late <= after + relaxation.loose)
        work = relaxation.work(j, lambda t: t.forward + t.backward, lambda t: t.forward)
        relaxation.at_least("memory at the turns", first + after + work - early - late)


def _longest_ns(relaxation: Relaxation) -> int:
    """Return no less than `first + after`: there and back, and from a rank's deepest layer to the last and back again.

    A type's time is that on the slowest ranks, and a gradient's with the forward repeated where that may be.
    """
    table = relaxation.table
    slowest = [tuple(map(max, zip(*entries, strict=True))) for entries in zip(*table.times, strict=True)]
    varied = len(table.classes) > 1 or relaxation.contiguous
    again = varied and relaxation.request.recompute == "auto"
    total = beyond = 0
    for t in table.type_of:
        forward, gradient, _, weight, step = slowest[t]
        beyond = forward * (1 + again) + gradient + (beyond if relaxation.contiguous else 0)
        total += forward * (1 + again) + gradient + weight + step
    hops = 4 * table.num_ranks * (max(table.lag_ns) + table.overhead_ns)
    return total + beyond + hops


class _Held:
    """What position j may hold at its turns, in (atom, micro-batch) pairs of each type."""

    def __init__(self, relaxation: Relaxation, j: int) -> None:
        self.relaxation, self.j = relaxation, j
        ranks = relaxation.table.num_ranks
        number = relaxation.num_microbatches
        #: in 1F1B a rank runs one F more than ranks follow it before its first B, and as many B after its last F
        self.number = min(number, ranks - j) if relaxation.one_f_one_b else number
        self.begun: list[Any] = []
        self.left: list[Any] = []

    def work(self) -> tuple[Any, Any]:
        """Return the most work that can be begun before the first gradient, and be left after the last forward."""
        relaxation = self.relaxation
        for c, rank in enumerate(relaxation.table.classes):
            states: list[Any] = [
                size.state // MEBIBYTE * have
                for size, have in zip(relaxation.table.sizes, relaxation.count[self.j][c], strict=True)
            ]
            at_first, at_last = [*states], [*states]
            for single, count in relaxation.table.each:
                for t in relaxation.kinds:
                    self._add(single, min(count, self.number), c, t, at_first, at_last)
            if rank.limit_bytes is not None:
                room = -(-rank.limit_bytes // MEBIBYTE) * relaxation.is_class[self.j][c]
                relaxation.model.add(sum(at_first) <= room)
                relaxation.model.add(sum(at_last) <= room)
        return sum(self.begun), sum(self.left)

    def _add(self, single: AtomTable, number: int, c: int, t: int, at_first: list[Any], at_last: list[Any]) -> None:
        """Add one type on one class of ranks, for micro-batches that are alike: bytes and the work they stand for."""
        relaxation = self.relaxation
        size, time = single.sizes[t], single.times[c][t]
        have, again = relaxation.count[self.j][c][t], relaxation.again[self.j][c][t]
        full = relaxation.request.recompute == "full"  # whose gradients hold the repeated forward already
        waiting = self._pairs(t, have, number)
        self.left.append(self._ticks_up(time.weight) * waiting)
        at_last.append(size.weight // MEBIBYTE * waiting)
        choices = (
            [(full, have, 0)] if isinstance(again, int) else [(False, have - again, 0), (True, again, time.forward)]
        )
        last = relaxation.table.type_of[-1]
        number = 1 if t == last and relaxation.table.counts[t] == 1 else number
        for recomputed, members, repeated in choices:
            held = (size.inputs if recomputed else size.activation) // MEBIBYTE
            forward, backward = self._pairs(t, members, number), self._pairs(t, members, number)
            self.begun.append(self._ticks_up(time.forward) * forward)
            self.left.append(self._ticks_up(time.backward + repeated) * backward)
            at_first.append(held * forward)
            at_last.append(held * backward)

    def _pairs(self, t: int, members: Any, number: int) -> Any:
        """Return how many pairs there are of so many atoms, each with up to `number` micro-batches."""
        pairs = self.relaxation.model.new_int_var(0, number * self.relaxation.table.counts[t], "")
        self.relaxation.model.add(pairs <= number * members)
        return pairs

    def _ticks_up(self, nanoseconds: int) -> int:
        return -(-nanoseconds // self.relaxation.unit)
