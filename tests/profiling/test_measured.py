"""Estimates against what others measured: the acceptance figures of the cost model."""

from __future__ import annotations

import pytest

from tests.benchmarks import paper_ratios, vtrain_error, vtrain_fit

needs_vtrain = pytest.mark.skipif(not vtrain_error.FOLDER.exists(), reason="vTrain's measurements are not here")
needs_paper = pytest.mark.skipif(not paper_ratios.REFERENCE.exists(), reason="the paper's profiles are not here")


@needs_vtrain
def test_step_times_are_near_measured_iterations() -> None:
    rows, hardware = vtrain_error.measured_rows(), vtrain_error.vtrain_hardware()
    assert len(rows) == 397
    errors = [vtrain_error.estimated_ms(row, hardware) / row.measured_ms - 1 for row in rows[1::2]]
    found = vtrain_error.summarised(errors)
    assert found.mean < 0.065
    assert found.ninetieth < 0.13
    assert abs(found.bias) < 0.01


@needs_vtrain
def test_the_closed_form_of_the_fit_is_the_simulation() -> None:
    hardware = vtrain_error.vtrain_hardware()
    for row in vtrain_error.measured_rows()[5::40]:
        simulated = vtrain_error.estimated_ms(row, hardware)
        closed = vtrain_fit.closed_form_ms(row, hardware, vtrain_error.ACTION_OVERHEAD_US, {})
        assert closed == pytest.approx(simulated, rel=0.02)


@needs_vtrain
def test_the_shipped_constants_are_those_of_the_fit() -> None:
    constants = vtrain_fit.fit(vtrain_error.measured_rows()[::2], vtrain_error.vtrain_hardware())
    shares = vtrain_error.vtrain_hardware().efficiency
    assert constants["gemm"] == pytest.approx(shares.gemm_forward.value, abs=0.02)
    assert constants["memory"] == pytest.approx(shares.memory.value, abs=0.03)
    assert constants["optimizer"] == pytest.approx(shares.optimizer.value, abs=0.06)
    assert constants["host_us"] == pytest.approx(vtrain_error.vtrain_hardware().host_us.value, rel=0.05)


#: What is further than 30 % from the paper, and why.
APART = {
    ("nemotron-nano-v2-9B", "attention", "F"): "theirs takes as long as an MLP of 1.9 times its FLOPs",
    ("nemotron-h-4B", "mamba", "I+W"): "their MLP's I and W are 0.54 and 0.57 of its F, which no product's are",
    ("nemotron-h-47B", "attention", "I+W"): "their fit stands at its floor: W 0.0001 ms, I less than F",
}


@needs_paper
def test_ratios_to_the_mlp_are_the_papers() -> None:
    found = {key: ratio for key, ratio in paper_ratios.ratios().items() if key[0] != "jamba-52B"}
    assert len(found) == 18
    assert {key for key, ratio in found.items() if abs(ratio.error) > 0.3} == set(APART)


@needs_paper
def test_jambas_mlp_is_what_no_ratio_fits() -> None:
    """Its I is 0.05 of its F; relative to Mamba, attention and head are as estimated, but for the head's backward."""
    found = {key[1:]: ratio for key, ratio in paper_ratios.ratios().items() if key[0] == "jamba-52B"}
    assert all(abs(ratio.error) > 0.3 for ratio in found.values())
    for kind in ("attention", "head"):
        theirs = found[kind, "F"].paper / found["mamba", "F"].paper
        assert found[kind, "F"].estimated / found["mamba", "F"].estimated == pytest.approx(theirs, rel=0.35)
