"""The sends and receives that PyTorch's runtime adds to a compute-only schedule.

torch/distributed/pipelining/schedules.py: `_add_unshard_reshard`, `_add_reduce_grad`, `_add_send_recv`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from octopipe_cli.engines.communication import Program, Step, Transfer, messages_of, needing
from octopipe_cli.plan import Action, Orders

#: Of so many stages a rank may hold the weights gathered under FSDP2: PyTorch's own number.
GATHERED: Final = 3


def swept(orders: Orders) -> tuple[Program, ...]:
    """Return the order PyTorch's runtime makes of a compute-only schedule: untimed, by sweeps over the ranks.

    In each sweep every rank whose next action has its inputs takes that one; its send, and the receive on the other
    rank, follow at that moment. What the runtime adds for sharded weights takes sweeps too.
    """
    messages = messages_of(orders)
    rank_of = {action: rank for rank, actions in enumerate(orders) for action in actions}
    needs: dict[Action, list[Action]] = {action: [] for action in rank_of}
    for action in rank_of:
        for following in needing(action, rank_of):
            needs[following].append(action)
    programs: list[list[tuple[Step, ...]]] = [[] for _ in orders]
    done: set[Action] = set()
    at = [0] * len(orders)
    fillers = [_fillers(actions) for actions in orders]
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(orders):
            if at[rank] == len(actions):
                continue
            action = actions[at[rank]]
            if fillers[rank][at[rank]]:
                fillers[rank][at[rank]] -= 1
            elif done.issuperset(needs[action]):
                programs[rank].append((action,))
                if action in messages:
                    message = messages[action]
                    programs[rank].append((Transfer("send", message),))
                    programs[message.receiver].append((Transfer("receive", message),))
                done.add(action)
                at[rank] += 1
            else:
                continue
            moved = True
    return tuple(map(tuple, programs))


def _fillers(actions: tuple[Action, ...]) -> list[int]:
    """Return how many steps for sharded weights the runtime puts before each action of a rank.

    Of the rank's next three stages the weights are gathered, all others are dropped (`_add_unshard_reshard`); a stage
    reduces its gradients after its last backward (`_add_reduce_grad`).
    """
    upcoming: dict[int, deque[int]] = {}
    for at, action in enumerate(actions):
        upcoming.setdefault(action.stage, deque()).append(at)
    counts, gathered, reduced = [], set[int](), 0
    for action in actions:
        nearest = sorted((places[0], stage) for stage, places in upcoming.items() if places)
        wanted = {stage for _, stage in nearest[:GATHERED]}
        counts.append(reduced + len(gathered ^ wanted))
        gathered = wanted
        upcoming[action.stage].popleft()
        reduced = 0 if upcoming[action.stage] else 1
    return counts
