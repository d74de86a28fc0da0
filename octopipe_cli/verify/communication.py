"""The rule of sends and receives: played through in order, each waiting for its other side, all of them end."""

from __future__ import annotations

from typing import Final, NamedTuple

from octopipe_cli.verify.case import Case, Found, Step

#: Engines whose 1F1B sends right after an action and receives right before one, one after another.
BLOCKING_ENGINES: Final = ("megatron", "megatron-hybrid", "deepspeed")


class _Message(NamedTuple):
    """A tensor on its way: what made it, and between which ranks."""

    made_by: Step
    sender: int
    receiver: int

    def __str__(self) -> str:
        return "{}{}{}".format(*self.made_by)


#: What a rank waits for before it goes on: messages that are there at once.
Program = list[list[_Message]]


def no_communication_deadlock(case: Case) -> Found:
    """Messages in the engine's order, or in that of their planned times, of which none waits for itself."""
    blocking = case.plan.request.engine in BLOCKING_ENGINES and case.one_stage_a_rank
    programs = _right_away(case) if blocking else _as_planned(case)
    waiting = _played(programs)
    if waiting:
        listed = ", ".join(f"rank {rank} for {' and '.join(map(str, group))}" for rank, group in waiting[:4])
        order = "sent right after its action, received right before one" if blocking else "in planned order"
        yield "$.orders", f"found ranks that wait for one another ({listed}), expected none with every message {order}"


def _message(case: Case, step: Step) -> _Message | None:
    """Return what leaves an action for another rank."""
    stage, kind, _ = step
    other = stage + 1 if kind == "F" else stage - 1
    if kind == "W" or not 0 <= other < len(case.plan.stages):
        return None
    sender, receiver = case.plan.stages[stage].rank, case.plan.stages[other].rank
    return None if sender == receiver else _Message(step, sender, receiver)


def _as_planned(case: Case) -> list[Program]:
    """Return each rank's messages by the planned ends of what makes them."""
    count, programs = case.num_microbatches, [[] for _ in case.orders]  # type: tuple[int, list[Program]]
    units = len(case.plan.stages) * count
    for number in case.timeline.by_end:
        place, unit = divmod(number, units)
        if place < 2:
            message = _message(case, (unit // count, "FB"[place], unit % count))  # an I sends what a B does
            if message is not None:
                programs[message.sender].append([message])
                programs[message.receiver].append([message])
    return programs


def _right_away(case: Case) -> list[Program]:
    """Return each rank's messages around its actions; a send and a receive from the same neighbour go together."""
    made = {}
    for step in (step for actions in case.orders for step in actions):
        message = _message(case, step)
        if message is not None:
            stage, kind, microbatch = step
            made[(stage + 1, True, microbatch) if kind == "F" else (stage - 1, False, microbatch)] = message
    programs: list[Program] = []
    for actions in case.orders:
        program: Program = []
        sent = None
        for step in actions:
            stage, kind, microbatch = step
            comes = None if kind == "W" else made.get((stage, kind == "F", microbatch))
            if comes is not None:
                ways = sent is not None and (sent.made_by[1] == "F") != (comes.made_by[1] == "F")
                if sent is not None and ways and sent.receiver == comes.sender:
                    program[-1].append(comes)
                else:
                    program.append([comes])
            sent = _message(case, step)
            if sent is not None:
                program.append([sent])
        programs.append(program)
    return programs


def _played(programs: list[Program]) -> list[tuple[int, list[_Message]]]:
    """Return the ranks that never get to the end, with what they wait for."""
    at = [0] * len(programs)
    here: list[set[_Message]] = [set() for _ in programs]
    arrived: set[_Message] = set()  # one side has come to it
    ready = [rank for rank, program in enumerate(programs) if program]
    while ready:
        rank = ready.pop()
        if at[rank] == len(programs[rank]):
            continue
        here[rank] = set(programs[rank][at[rank]])
        for message in programs[rank][at[rank]]:
            if message not in arrived:
                arrived.add(message)
                continue
            for side in (message.sender, message.receiver):
                here[side].discard(message)
                if not here[side]:
                    at[side] += 1
                    ready.append(side)
    return [(rank, programs[rank][place]) for rank, place in enumerate(at) if place < len(programs[rank])]
