from __future__ import annotations

import pytest

from octopipe_cli.engines.megatron_orders import group_size_of, interleaved_1f1b, one_f_one_b

#: (P, V, M, N, rank) and the order, an action as micro-batch and chunk.
GOLDEN = {
    (2, 2, 4, 2, 0): "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0",
    (2, 2, 4, 2, 1): "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0",
    (2, 2, 5, 3, 0): (
        "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0 B1.1 F4.0 B2.1 F3.1 B0.0 F4.1 B1.0 B2.0 B3.1 B4.1 B3.0 B4.0"
    ),
    (4, 2, 8, 4, 3): (
        "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 "
        "F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0"
    ),
    (4, 2, 8, 4, 0): (
        "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0.0 F7.1 "
        "B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0"
    ),
}


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_interleaved_orders(case: tuple[int, int, int, int, int]) -> None:
    ranks, per_rank, microbatches, size, rank = case
    order = interleaved_1f1b(ranks, microbatches, per_rank, size)[rank]
    assert " ".join(f"{kind}{m}.{stage // ranks}" for stage, kind, m in order) == GOLDEN[case]
    assert {stage % ranks for stage, _, _ in order} == {rank}


def test_warm_up_of_1f1b() -> None:
    orders = one_f_one_b(4, 6)
    assert ["".join(action.kind for action in order).index("B") for order in orders] == [4, 3, 2, 1]


@pytest.mark.parametrize(("ranks", "microbatches", "size"), [(4, 10, 5), (4, 6, 6), (4, 13, 9), (2, 5, 3), (2, 4, 2)])
def test_the_group_size_is_read_off_the_first_rank(ranks: int, microbatches: int, size: int) -> None:
    assert group_size_of(interleaved_1f1b(ranks, microbatches, 3, size)[0]) == size
