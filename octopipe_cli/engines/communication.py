"""A plan lowered to sends and receives.

Every transfer between ranks is a message. `in_planned_order` gives all messages one total order, that of the ends of
their producers in the planned timeline: each is sent right after its producer, and its receive is posted on the other
rank before the action that runs there at that time. This is the communication reordering of OctoPipe (arXiv
2509.23722, unified executor). `blocking` is what Megatron-LM's 1F1B does: it sends right after an action, receives
right before one, and exchanges with one neighbour at once. `torch_lowering` has PyTorch's own order.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Literal, NamedTuple

from octopipe_cli.plan import Action, Orders
from octopipe_cli.simulate import Timeline


class Message(NamedTuple):
    """What an action's result is on its way to another rank: the action it is made by, and the one that takes it.

    Both are of the same micro-batch, in neighbouring stages.
    """

    producer: Action
    consumer: Action
    sender: int
    receiver: int


class Transfer(NamedTuple):
    """One side of a message: its send, or its receive."""

    side: Literal["send", "receive"]
    message: Message

    def __str__(self) -> str:
        """The runtime's token: ``0SEND_F3``, and ``1RECV_F3`` on the other rank; B for gradients."""
        end = self.message.producer if self.side == "send" else self.message.consumer
        name = "SEND" if self.side == "send" else "RECV"
        return f"{end.stage}{name}_{'F' if self.message.producer.kind == 'F' else 'B'}{end.microbatch}"


#: What a rank does, in order. What stands in one group happens together: no order within it.
Step = Action | Transfer
Program = tuple[tuple[Step, ...], ...]


def messages_of(orders: Orders) -> dict[Action, Message]:
    """Return the messages of a plan by their producers; what stays on its rank is none."""
    rank_of = {action: rank for rank, actions in enumerate(orders) for action in actions}
    found = {}
    for action, rank in rank_of.items():
        stage, kind, microbatch = action
        if kind == "W":
            continue
        if kind == "F":
            taker = Action(stage + 1, "F", microbatch)
        else:
            taker = Action(stage - 1, "B", microbatch)
            if taker not in rank_of:
                taker = Action(stage - 1, "I", microbatch)
        if taker in rank_of and rank_of[taker] != rank:
            found[action] = Message(action, taker, rank, rank_of[taker])
    return found


def in_planned_order(timeline: Timeline) -> tuple[Program, ...]:
    """Return what each rank computes, sends and receives, messages in the order in which they are planned to be ready.

    Every step belongs to one total order over all ranks (actions by their planned end, each message behind its
    producer), so whichever step comes first there can always be taken: no wait in a circle, even where a send waits
    for its receive.
    """
    messages = messages_of(timeline.orders)
    programs: list[list[tuple[Step, ...]]] = [[] for _ in timeline.orders]
    for rank, action in _by_end(timeline):
        programs[rank].append((action,))
        if action in messages:
            message = messages[action]
            programs[rank].append((Transfer("send", message),))
            programs[message.receiver].append((Transfer("receive", message),))
    return tuple(map(tuple, programs))


def _by_end(timeline: Timeline) -> list[tuple[int, Action]]:
    """Return all actions with their ranks by planned end; those that end together in an order they can run in."""
    rank_of = {action: rank for rank, actions in enumerate(timeline.orders) for action in actions}
    place = {action: at for actions in timeline.orders for at, action in enumerate(actions)}
    behind = {action: needing(action, rank_of) for action in rank_of}
    for actions in timeline.orders:
        for action, following in pairwise(actions):
            behind[action].append(following)
    waits = dict.fromkeys(rank_of, 0)
    for followers in behind.values():
        for action in followers:
            waits[action] += 1

    def key(action: Action) -> tuple[int, int, int]:
        return timeline.end_ns[rank_of[action]][place[action]], rank_of[action], place[action]

    ready = [(key(action), action) for action, count in waits.items() if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        _, action = heapq.heappop(ready)
        found.append((rank_of[action], action))
        for following in behind[action]:
            waits[following] -= 1
            if not waits[following]:
                heapq.heappush(ready, (key(following), following))
    return found


def needing(action: Action, known: dict[Action, int]) -> list[Action]:
    """Return the actions that need this one's result, whatever rank they are on."""
    stage, kind, microbatch = action
    if kind == "W":
        return []
    wanted = [Action(stage, "W", microbatch)] if kind == "I" else []
    if kind == "F":
        wanted = [Action(stage + 1, "F", microbatch)]
        wanted += [Action(stage, "B", microbatch), Action(stage, "I", microbatch)]
    else:
        wanted += [Action(stage - 1, "B", microbatch), Action(stage - 1, "I", microbatch)]
    return [other for other in wanted if other in known]


def blocking(orders: Orders) -> tuple[Program, ...]:
    """Return what ranks do that receive right before an action and send right after one, and wait for both.

    A send and the receive that follows it, where both are with one neighbour and go different ways, are one exchange
    (Megatron-LM's `send_forward_recv_backward` and `send_backward_recv_forward`).
    """
    messages = messages_of(orders)
    incoming = {message.consumer: message for message in messages.values()}
    programs = []
    for actions in orders:
        steps: list[tuple[Step, ...]] = []
        for action in actions:
            if action in incoming:
                receive = Transfer("receive", incoming[action])
                if steps and _exchanged(steps[-1], receive):
                    steps[-1] = (*steps[-1], receive)
                else:
                    steps.append((receive,))
            steps.append((action,))
            if action in messages:
                steps.append((Transfer("send", messages[action]),))
        programs.append(tuple(steps))
    return tuple(programs)


def _exchanged(before: tuple[Step, ...], receive: Transfer) -> bool:
    """Return whether a receive goes together with the send before it."""
    send = before[-1]
    if not isinstance(send, Transfer) or send.side != "send" or len(before) > 1:
        return False
    same = send.message.receiver == receive.message.sender
    return same and (send.message.producer.kind == "F") != (receive.message.producer.kind == "F")
