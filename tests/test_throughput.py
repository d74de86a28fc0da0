from __future__ import annotations

import msgspec
import pytest

from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, content_digest, load_plan, plan_text
from octopipe_cli.profile import Profile, model_work, profile_from_document
from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.estimate import estimate, setting_provenance
from octopipe_cli.profiling.hardware import load_hardware
from octopipe_cli.profiling.merge import merge
from octopipe_cli.profiling.setting import Setting
from octopipe_cli.throughput import throughput, throughput_text, training_of
from tests import documents


def profile(hardware: str = "h100-sxm", **degrees: int) -> Profile:
    device, setting = load_hardware(hardware), Setting(8192, 1, **degrees)  # type: ignore[arg-type]
    document = estimate(
        architecture_of(load_config("llama-3.1-8b")), device, setting, setting_provenance(device, setting)
    )
    return profile_from_document(document, "p")


def test_model_flops_are_those_of_palm_s_formula() -> None:
    """Six for each weight that a token meets, 12 L H Q T for attention, of whose pairs a causal mask lets see half."""
    work = model_work(profile())
    assert work is not None
    weights = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336) + 4096 * 128256
    tokens = 8192
    expected = tokens * (6 * weights + 12 * 32 * 4096 * tokens // 2)
    assert work.flops == pytest.approx(expected, rel=1e-3)
    assert work.peak_tflops == {"h100-sxm": 989.4}


def test_the_whole_replica_counts_where_layers_are_cut() -> None:
    whole, cut = model_work(profile()), model_work(profile(tensor_parallel=4, data_parallel=2))
    assert whole is not None
    assert cut is not None
    assert cut.flops == pytest.approx(whole.flops, rel=1e-3)


def test_a_merged_profile_has_the_rates_of_all_its_hardware() -> None:
    parts = [Loaded(profile(name), name, "sha256:" + "0" * 64) for name in ("h100-sxm", "a100-80gb")]
    found = model_work(profile_from_document(merge(parts, take_larger=True), "merged"))
    assert found is not None
    assert found.peak_tflops == {"h100-sxm": 989.4, "a100-80gb": 312.0}


def plan_with(**training: object) -> Plan:
    plan = load_plan(str(documents.PLAN)).value
    known = training_of(profile(tensor_parallel=2, data_parallel=4))
    assert known is not None
    ranks = [msgspec.structs.replace(rank, hardware="h100-sxm") for rank in plan.ranks]
    request = msgspec.structs.replace(plan.request, num_microbatches=16)
    return msgspec.structs.replace(
        plan, training=msgspec.structs.replace(known, **training), ranks=ranks, request=request
    )


def test_rates_count_every_replica_and_device() -> None:
    plan = plan_with(model_flops=10**15, peak_tflops={"h100-sxm": 1000.0})
    assert len(plan.ranks) == 2
    found = throughput(plan, 2 * 10**9)
    assert found is not None
    # 16 micro-batches x 4 replicas x 8192 tokens in 2 s; 2 ranks x 2 x 4 devices.
    assert (found.tokens_per_step, found.tokens_per_s) == (524288, 262144.0)
    assert (found.devices, found.devices_per_rank, found.tokens_per_s_per_device) == (16, 8, 16384.0)
    # 64 PFLOP over 16 devices x 1 PFLOP/s x 2 s
    assert found.mfu == pytest.approx(2.0)
    assert throughput_text(plan, 2 * 10**9) == (
        "262,144 tokens/s, 16,384 a device on 16 devices (2 ranks of 8; tensor parallel 2, data parallel 4); "
        "524,288 tokens a step",
        "200.0 % of 1000 TFLOP/s of h100-sxm (bf16); recomputation does not count",
    )


def test_without_flops_or_a_rate_there_are_tokens_and_no_mfu() -> None:
    for training in ({"model_flops": None}, {"peak_tflops": {"a100": 312.0}}, {"peak_tflops": None}):
        found = throughput(plan_with(**training), 10**9)
        assert found is not None
        assert found.mfu is None


def test_plans_that_say_nothing_of_their_training_are_as_before() -> None:
    plan = load_plan(str(documents.PLAN)).value
    assert plan.training is None
    assert throughput(plan, 10**9) is None
    assert '"training"' not in plan_text(plan)


def test_the_content_digest_covers_the_training() -> None:
    digests = {content_digest(plan_with(model_flops=flops)) for flops in (None, 10**15, 10**15 + 1)}
    assert len(digests) == 3
    assert content_digest(plan_with()) == content_digest(plan_with())
