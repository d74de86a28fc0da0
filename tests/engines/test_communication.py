from __future__ import annotations

from random import Random

import pytest

from octopipe_cli.engines.communication import (
    Message,
    Program,
    Transfer,
    blocking,
    in_planned_order,
    messages_of,
)
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, one_f_one_b
from octopipe_cli.engines.rendezvous import check_no_deadlock
from octopipe_cli.engines.torch_lowering import swept
from octopipe_cli.errors import DeadlockError
from octopipe_cli.plan import Orders
from octopipe_cli.simulate import Timeline, simulate
from tests.engines.plans import order_of
from tests.instances import random_instance, random_orders, timeline_of
from tests.pipelines import random_pipeline

SEEDS = range(60)


def texts(programs: tuple[Program, ...]) -> list[str]:
    """Return the programs as one line a rank; what happens together is joined by +."""
    return [" ".join("+".join(map(str, group)) for group in program) for program in programs]


def some_timeline(seed: int) -> Timeline:
    """Return random stages, orders and links, or, every other time, a random pipeline with times that often tie."""
    rng = Random(seed)
    if seed % 2:
        return timeline_of(random_instance(rng))
    pipeline = random_pipeline(rng)
    whole = [not pipeline.may_split(stage) for stage in range(pipeline.num_stages)]
    return simulate(pipeline, random_orders(rng, pipeline.rank_of, pipeline.num_microbatches, whole))


def test_a_message_is_sent_behind_its_action_and_received_before_what_runs_then() -> None:
    programs = swept(order_of("0F0 0B0", "1F0 1B0"))
    assert texts(programs) == ["0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"]


def test_an_exchange_with_one_neighbour_is_one_step() -> None:
    assert texts(blocking(one_f_one_b(2, 2))) == [
        "0F0 0SEND_F0 0F1 0SEND_F1+0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1B0 1SEND_B0+1RECV_F1 1F1 1B1 1SEND_B1",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_order_never_deadlocks_and_is_one_total_order(seed: int) -> None:
    timeline = some_timeline(seed)
    programs = in_planned_order(timeline)
    check_no_deadlock(programs)
    check_transfers(programs, timeline.orders)
    ends = {
        action: end
        for actions, times in zip(timeline.orders, timeline.end_ns, strict=True)
        for action, end in zip(actions, times, strict=True)
    }
    for program in programs:  # each rank's messages by the planned ends of what makes them
        times = [ends[step.message.producer] for group in program for step in group if isinstance(step, Transfer)]
        assert times == sorted(times)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_runtime_never_deadlocks(seed: int) -> None:
    timeline = some_timeline(seed)
    programs = swept(timeline.orders)
    check_no_deadlock(programs)
    check_transfers(programs, timeline.orders)


def check_transfers(programs: tuple[Program, ...], orders: Orders) -> None:
    """Check that the actions kept their order and every message has one send and one receive, on the right ranks."""
    sides: dict[tuple[str, Message], int] = {}
    for rank, program in enumerate(programs):
        steps = [step for group in program for step in group]
        assert tuple(step for step in steps if not isinstance(step, Transfer)) == orders[rank]
        for at, step in enumerate(steps):
            if isinstance(step, Transfer):
                assert (step.side, step.message) not in sides
                sides[step.side, step.message] = rank
                other = step.message.producer if step.side == "send" else step.message.consumer
                assert (steps.index(other) < at) == (step.side == "send")
    wanted = messages_of(orders).values()
    assert sides == {("send", m): m.sender for m in wanted} | {("receive", m): m.receiver for m in wanted}


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 3), (2, 1), (2, 5), (3, 2), (4, 4), (5, 12)])
def test_blocking_1f1b_never_deadlocks(ranks: int, microbatches: int) -> None:
    check_no_deadlock(blocking(one_f_one_b(ranks, microbatches)))


def test_interleaving_deadlocks_where_messages_block_and_not_in_planned_order() -> None:
    orders = interleaved_1f1b(4, 8, 2)
    with pytest.raises(DeadlockError):
        check_no_deadlock(blocking(orders))
    check_no_deadlock(swept(orders))


def test_crossed_gradients_deadlock_and_name_the_circle() -> None:
    crossed = order_of("0F0 0F1 0B1 0B0", "1F0 1F1 1B0 1B1")
    with pytest.raises(DeadlockError) as caught:
        check_no_deadlock(blocking(crossed))
    assert set(caught.value.circle) == {"1SEND_B1", "0B1", "1SEND_B0", "1B1"}
    check_no_deadlock(swept(crossed))
