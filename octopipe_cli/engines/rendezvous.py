"""Whether sends and receives could ever wait in a circle, in the order in which the ranks come to them."""

from __future__ import annotations

from collections.abc import Sequence

from octopipe_cli.engines.communication import Message, Program, Transfer
from octopipe_cli.errors import DeadlockError
from octopipe_cli.plan import Action


def check_no_deadlock(programs: Sequence[Program]) -> None:
    """Raise DeadlockError where steps wait in a circle, even if a send ends only when its receive is posted.

    The graph: a message is one node, reached when both sides have come to it; every rank's steps follow one another,
    computation and communication alike. That is stricter than any engine with streams of its own for messages.
    """
    behind: dict[Action | Message, list[Action | Message]] = {}
    for program in programs:
        before: tuple[Action | Message, ...] = ()
        for step in program:
            nodes = tuple(item.message if isinstance(item, Transfer) else item for item in step)
            for node in nodes:
                behind.setdefault(node, [])
                for earlier in before:
                    behind[earlier].append(node)
            before = nodes
    waits = dict.fromkeys(behind, 0)
    for followers in behind.values():
        for node in followers:
            waits[node] += 1
    ready = [node for node, count in waits.items() if not count]
    while ready:
        for following in behind[ready.pop()]:
            waits[following] -= 1
            if not waits[following]:
                ready.append(following)
    stuck = [node for node, count in waits.items() if count]
    if stuck:
        raise DeadlockError(_circle(stuck, behind, waits))


def _circle(
    stuck: list[Action | Message],
    behind: dict[Action | Message, list[Action | Message]],
    waits: dict[Action | Message, int],
) -> tuple[str, ...]:
    """Return the tokens of one circle among what never became ready, each waiting for the next."""
    before: dict[Action | Message, Action | Message] = {}
    for node in stuck:
        for following in behind[node]:
            before.setdefault(following, node)
    path: list[Action | Message] = []
    at: dict[Action | Message, int] = {}
    node = stuck[0]
    while node not in at:
        at[node] = len(path)
        path.append(node)
        node = before[node]
    assert all(waits[each] for each in path)
    return tuple(str(each) if isinstance(each, Action) else str(Transfer("send", each)) for each in path[at[node] :])
