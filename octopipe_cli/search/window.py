"""A stretch of a schedule whose order may change, all before it fixed, the order after it too.

What comes after the window floats in time, so all that matters of it is how much must still follow each action of
the window: its tail.
"""

from __future__ import annotations

from octopipe_cli.plan import Action
from octopipe_cli.search.incumbent import NO_PATH, Incumbent, longer


class Window:
    """What a stretch of an incumbent's sequence is free to do.

    Attributes
    ----------
    before, free, after
        Actions before, in and after `sequence[begin:end]`.
    earliest, tail
        For each free action: when it can start, by what is before; time from its start to each goal over what is
        after.
    past
        For each goal the longest path to it that goes past the window, as it stands.
    first_at, first_free
        For each goal what it is counted from: a time (what is after the window stays where it is), or a free action.
    """

    def __init__(self, incumbent: Incumbent, begin: int, end: int) -> None:
        self.incumbent = incumbent
        self.before = set(incumbent.sequence[:begin])
        self.free = dict.fromkeys(incumbent.sequence[begin:end])
        self.after = set(incumbent.sequence[end:])
        self.past = [NO_PATH] * incumbent.num_goals
        free_from: list[int] = []
        next_after: list[Action | None] = []
        for actions in incumbent.timeline.orders:
            earlier = [action for action in actions if action in self.before]
            next_after.append(next((action for action in actions if action in self.after), None))
            start = incumbent.times[earlier[-1]][0] if earlier else 0
            free_from.append(start + incumbent.occupies(earlier[-1]) if earlier else 0)
            if earlier and len(earlier) == len(actions):
                self.past = longer(self.past, incumbent.last_tail(earlier[-1]), start)
        for action in self.before:
            for following, wait in incumbent.followers[action]:
                if following in self.after:
                    self.past = longer(self.past, incumbent.tails[following], incumbent.times[action][0] + wait)
        self.earliest: dict[Action, int] = {}
        self.tail: dict[Action, list[int]] = {}
        for action in self.free:
            rank = incumbent.rank(action)
            arrivals = [
                incumbent.times[need][0] + wait for need, wait in incumbent.needs[action] if need in self.before
            ]
            self.earliest[action] = max([free_from[rank], *arrivals])
            self.tail[action] = self._tail(action, next_after[rank])
        counted = [self._counted_from(goal) for goal in range(incumbent.num_goals)]
        self.first_at = [0 if action is None else incumbent.times[action][0] for action in counted]
        self.first_free = [action if action in self.free else None for action in counted]

    def _tail(self, action: Action, next_after: Action | None) -> list[int]:
        incumbent = self.incumbent
        if next_after is None:
            tail = incumbent.last_tail(action)
        else:
            tail = [incumbent.occupies(action) + path for path in incumbent.tails[next_after]]
        for following, wait in incumbent.followers[action]:
            if following in self.after:
                tail = longer(tail, incumbent.tails[following], wait)
        return tail

    def _counted_from(self, goal: int) -> Action | None:
        actions = self.incumbent.timeline.orders[goal]
        return actions[0] if actions and self.incumbent.objective == "span" else None

    def least(self) -> int:
        """Return what paths past the window keep the objective at."""
        paths = zip(self.past, self.first_at, self.first_free, strict=True)
        return max([0, *(past - at for past, at, free in paths if free is None)])
