from __future__ import annotations

import pytest

from octopipe_cli.profiling.memory import Weights
from octopipe_cli.profiling.setting import Setting
from octopipe_cli.profiling.stepping import reduction_seconds, step_seconds
from tests.profiling.hardware_examples import round_hardware

ROUND = round_hardware()
COUNT = 10**9


def setting(**more: object) -> Setting:
    return Setting(128, 1, sequence_parallel=False, **more)  # type: ignore[arg-type]


def test_gradients_are_reduced_in_their_own_format() -> None:
    # 4 replicas in a node, 50 GB/s: an all-reduce sends 1.5 x, in 4 hops of 1 us
    wide = reduction_seconds(COUNT, setting(zero=0, data_parallel=4), ROUND)
    assert wide == pytest.approx(1.5 * 4 / 50 + 4e-6)
    narrow = reduction_seconds(COUNT, setting(zero=0, data_parallel=4, grad_dtype="bf16"), ROUND)
    assert narrow == pytest.approx(1.5 * 2 / 50 + 4e-6)
    assert reduction_seconds(COUNT, setting(zero=0), ROUND) == 0.0


def test_with_zero_gradients_are_scattered_and_weights_gathered() -> None:
    for zero, sent in ((1, 4 + 2), (2, 4 + 2), (3, 4)):
        seconds = reduction_seconds(COUNT, setting(zero=zero, data_parallel=4), ROUND)
        assert seconds == pytest.approx(0.75 * sent / 50, rel=1e-3)


def test_replicas_stand_apart_by_what_a_layer_is_cut_over() -> None:
    # stride 4 x 2 replicas: two nodes, one member each: 5 GB/s
    seconds = reduction_seconds(COUNT, setting(zero=0, tensor_parallel=4, data_parallel=2), ROUND)
    assert seconds == pytest.approx(4 / 5, rel=1e-3)


def test_experts_are_reduced_over_fewer_replicas() -> None:
    both = setting(zero=0, expert_parallel=2, data_parallel=4)
    assert reduction_seconds(COUNT, both, ROUND, experts=True) == pytest.approx(4 / 50, rel=1e-3)  # 2, in one node


def test_the_optimizer_is_bound_by_memory() -> None:
    # bytes a weight: states twice, gradient twice, the 16-bit weight; 500 GB/s
    for name, moved in (("adam", 24 + 8 + 2), ("sgd", 16 + 8 + 2)):
        assert step_seconds([Weights(COUNT)], setting(optimizer=name), ROUND, 64) == pytest.approx(moved / 500)
    halved = step_seconds([Weights(COUNT)], setting(zero=1, data_parallel=2), ROUND, 64)
    assert halved == pytest.approx(34 / 2 / 500 + 0.5 * 6 / 50, rel=1e-3)


def test_muon_multiplies_matrices() -> None:
    # 5 iterations of 6 m FLOPs a weight at 50 TFLOP/s, beside sgd's bytes
    found = step_seconds([Weights(COUNT)], setting(optimizer="muon"), ROUND, 4096)
    assert found == pytest.approx(26 / 500 + 5 * 6 * 4096 * 1e9 / 50e12)
    assert step_seconds([Weights(COUNT, matrices=False)], setting(optimizer="muon"), ROUND, 4096) == pytest.approx(
        34 / 500
    )
