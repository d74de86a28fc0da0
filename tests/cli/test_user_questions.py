"""What users of pipeline parallelism asked in public threads, and what octopipe does about each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopipe_cli.plan import Plan, plan_text
from tests.cli.conftest import Octopipe
from tests.editing import REMOVED, edited
from tests.engines.plans import gpt, order_of
from tests.export.test_torch import SPLIT
from tests.profiling import tiny_configs
from tests.render.plans import one_f_one_b, v_plan

GIB = 2**30
ESTIMATE = ("--hardware", "h100-sxm", "--sequence-length", 1024, "--micro-batch-size", 1)


def times(each_ms: float) -> dict[str, Any]:
    return {"a100": {"forward_ms": each_ms, "backward_input_ms": each_ms, "backward_weight_ms": each_ms}}


def model(num_layers: int, first_ms: float = 0.1, head_ms: float = 2) -> dict[str, Any]:
    """Return a profile of decoder layers of 1 ms a pass, 1 GiB of state each, a light embedding."""
    sizes = {"state_bytes": GIB, "activation_bytes": GIB // 8, "output_bytes": 2**20}
    return {
        "schema": "octopipe.profile",
        "version": 1,
        "name": "model",
        "kinds": {
            "embedding": {"role": "embedding", **sizes, "times": times(first_ms)},
            "decoder": {**sizes, "times": times(1)},
            "head": {"role": "head", **sizes, "times": times(head_ms)},
        },
        "layers": ["embedding", {"repeat": num_layers, "of": ["decoder"]}, "head"],
    }


def cluster(*memory_gib: float | None, p2p: str = "overlapped", bandwidth: float | None = None) -> dict[str, Any]:
    return {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": "ranks",
        "ranks": [{"hardware": "a100", "memory_gib": size} for size in memory_gib],
        "links": {"within_node": {"bandwidth_gb_per_s": bandwidth}},
        "p2p": p2p,
    }


def write(profile: dict[str, Any], ranks: dict[str, Any]) -> None:
    Path("model.json").write_text(json.dumps(profile))
    Path("ranks.json").write_text(json.dumps(ranks))


def planned(octopipe: Octopipe, *arguments: object) -> dict[str, Any]:
    """Return the plan for the written inputs."""
    done = octopipe("plan", "model.json", "ranks.json", "--effort", "quick", "--jobs", 1, "-o", "p.json", *arguments)
    assert done.code == 0, done.err
    plan: dict[str, Any] = json.loads(Path("p.json").read_text())
    return plan


def rows(octopipe: Octopipe, num_microbatches: int, *arguments: object) -> list[dict[str, Any]]:
    """Return what `compare` lists for the written inputs."""
    command = ("compare", "model.json", "ranks.json", "-m", num_microbatches, "--format", "json", *arguments)
    found: list[dict[str, Any]] = json.loads(octopipe(*command).out)["rows"]
    return found


def row(found: list[dict[str, Any]], schedule: str, partition: str = "equal") -> dict[str, Any]:
    return next(each for each in found if (each["schedule"], each["partition"]) == (schedule, partition))


def written(plan: Plan) -> str:
    Path("p.json").write_text(plan_text(plan))
    return "p.json"


def layout(octopipe: Octopipe, text: str, ranks: int, layers: int, *more: object) -> list[str]:
    """Return the rules that a layout breaks."""
    done = octopipe("layout", "check", text, "--ranks", ranks, "--layers", layers, *more, "--format", "json")
    problems = json.loads(done.out)["problems"]
    assert done.code == (1 if problems else 0)
    return [problem["rule"] for problem in problems]


# --- layers that do not divide, layers that are dropped


@pytest.mark.parametrize(("num_layers", "num_ranks"), [(7, 2), (6, 4)])
@pytest.mark.slow
def test_layers_that_do_not_divide_by_the_ranks(
    folder: Path, octopipe: Octopipe, num_layers: int, num_ranks: int
) -> None:
    """Megatron-LM #381: 7 layers on 2 ranks; ms-swift #5737: 46 on 4, refused there with an assertion."""
    write(model(num_layers), cluster(*[None] * num_ranks))
    planned(octopipe, "-m", 4, "--engine", "megatron", "--max-stages-per-rank", 1)
    text = octopipe("export", "p.json", "--to", "megatron").out
    assert f"--num-layers {num_layers}\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("--pipeline-model-parallel-layout")]
    assert layout(octopipe, line.split("'")[1], num_ranks, num_layers) == []


def test_uneven_counts_are_balanced_partitions(folder: Path, octopipe: Octopipe) -> None:
    write(model(7), cluster(None, None))
    found = rows(octopipe, 4)
    assert row(found, "1f1b", "balanced")["step_time_ns"] < row(found, "1f1b")["step_time_ns"]


@pytest.mark.parametrize(
    ("text", "ranks", "layers"), [("Et*7|(t*7|)*2t*7L", 4, 30), ("Et*2|(t*2|)*30t*2L", 16, 80)], ids=["30", "80"]
)
def test_layers_that_are_left_out_are_counted(
    folder: Path, octopipe: Octopipe, text: str, ranks: int, layers: int
) -> None:
    """Megatron-LM #1304: 30 layers on 4 ranks trained 28; #468: 80 on 16 ranks of 2 chunks ran 64."""
    assert layout(octopipe, text, ranks, layers) == ["layers"]


def test_a_plan_that_leaves_a_layer_out_is_not_valid(folder: Path, octopipe: Octopipe) -> None:
    document = json.loads(Path("plan.json").read_text())
    first, last = document["stages"][0]["layers"]
    Path("short.json").write_text(json.dumps(edited(document, {"stages.0.layers": [first, last - 1]})))
    done = octopipe("verify", "short.json", "--profile", "profile.json", "--cluster", "cluster.json")
    assert (done.code, "layer" in done.out) == (1, True)


# --- weight at the ends

EVEN = ("--layout", "Et*2|t*2|t*2L")
UNEVEN = ("--layout", "Et*2|t*3|tL")


def test_an_uneven_layout_is_faster_where_the_ends_are_heavy(folder: Path, octopipe: Octopipe) -> None:
    write(model(6, first_ms=1), cluster(None, None, None))
    even, uneven = (each["step_time_ns"] for each in rows(octopipe, 6, *EVEN, *UNEVEN)[-2:])
    assert uneven < even
    assert row(rows(octopipe, 6), "1f1b", "balanced")["step_time_ns"] <= uneven


@pytest.mark.slow
def test_a_recipe_without_a_layout_against_one_with(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-Bridge #5391: first and last stage heavier, all others wait."""
    write(model(6, first_ms=1), cluster(None, None, None))
    (uneven,) = (each["step_time_ns"] for each in rows(octopipe, 6, *UNEVEN)[-1:])
    plan = planned(octopipe, "-m", 6, "--engine", "megatron", "--max-stages-per-rank", 1)
    assert plan["predicted"]["step_time_ns"] <= uneven


def test_an_embedding_or_a_head_alone_in_a_stage(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #890, DeepSpeed #1378: it saves memory there, and costs one hop more."""
    assert layout(octopipe, "E|t*2|t*2|L", 4, 4) == []
    write(model(4), cluster(None, None, None, None, bandwidth=1))
    alone, packed = rows(octopipe, 4, "--layout", "E|t*2|t*2|L", "--layout", "Et|t|t|tL")[-2:]
    assert alone["peak_memory_bytes"][3] < packed["peak_memory_bytes"][3]
    assert alone["step_time_ns"] > 0


def test_mtp_layers_are_a_kind_of_their_own(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #1916: one unbalances the last stage, alone it may; #5329: spread over ranks is refused."""
    assert layout(octopipe, "Et|t|m|L", 4, 2, "--mtp", 1) == []
    assert layout(octopipe, "Et|t|tm|mL", 4, 3, "--mtp", 2) == ["mtp-together"]


def test_each_mtp_depth_is_one_more_output_product_of_the_head(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #5318: head and MTP losses overload the last stage."""
    heads = []
    for depths in (0, 1):
        config = tiny_configs.DEEPSEEK | {"vocab_size": 250_000, "num_nextn_predict_layers": depths}
        Path("config.json").write_text(json.dumps(config))
        kinds = json.loads(octopipe("profile", "estimate", "config.json", *ESTIMATE).out)["kinds"]
        (head,) = [kind for kind in kinds.values() if kind.get("role") == "head"]
        heads.append(head["times"]["h100-sxm"]["forward_ms"])
    assert 1.9 < heads[1] / heads[0] < 2.1


def test_a_large_vocabulary_weighs_what_it_takes(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-DeepSpeed #186: an embedding of 250k words is as large as two layers."""
    Path("config.json").write_text(json.dumps(tiny_configs.LLAMA | {"vocab_size": 250_000}))
    kinds = json.loads(octopipe("profile", "estimate", "config.json", *ESTIMATE).out)["kinds"]
    by_role = {kind.get("role", "decoder"): kind for kind in kinds.values()}
    assert by_role["embedding"]["state_bytes"] > 2 * by_role["decoder"]["state_bytes"]
    assert by_role["head"]["times"]["h100-sxm"]["forward_ms"] > by_role["embedding"]["times"]["h100-sxm"]["forward_ms"]


@pytest.mark.slow
def test_a_heavy_first_stage_gets_fewer_layers(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-Bridge #5884: 60 layers and a vision encoder on 8 ranks, 4 layers with it and 8 elsewhere."""
    write(model(6, first_ms=2), cluster(None, None))
    stages = planned(octopipe, "-m", 4, "--engine", "deepspeed")["stages"]
    assert stages[0]["layers"] == [0, 4]  # 2 + 3 ms; then 3 + 2 ms
    snippet = octopipe("export", "p.json", "--to", "deepspeed").out
    compile(snippet, "stages.py", "exec")  # DeepSpeed #2974 and #5379: a list of ranges by time, not by parameters
    assert "[0, 4, 8]" in snippet


# --- memory


@pytest.mark.slow
def test_ranks_of_uneven_memory(folder: Path, octopipe: Octopipe) -> None:
    """ms-swift #5180: each rank has its limit, and none is exceeded."""
    write(model(4, head_ms=1), cluster(3.5, 8))
    plan = planned(octopipe, "-m", 2, "--engine", "deepspeed")
    assert [stage["layers"] for stage in plan["stages"]] == [[0, 2], [2, 6]]
    assert plan["predicted"]["ranks"][0]["peak_memory_bytes"] <= 3.5 * GIB


def test_memory_is_that_of_each_rank_and_of_what_is_in_flight(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-Bridge #5077: total / P is too low; DeepSpeed #4477: equal stages, but the first rank holds more."""
    write(model(6, head_ms=1), cluster(None, None, None, None))
    peaks = row(rows(octopipe, 8), "1f1b")["peak_memory_bytes"]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] - peaks[3] >= 3 * 2 * GIB // 8  # P - r micro-batches of two layers each
    write(model(6, head_ms=1), cluster(4, 4))
    done = octopipe("plan", "model.json", "ranks.json", "-m", 4, "--effort", "quick", "--jobs", 1)
    assert (done.code, "GiB" in done.err) == (3, True)


def test_both_ends_of_a_v_are_on_rank_0(folder: Path, octopipe: Octopipe) -> None:
    """zero-bubble #36: ZB-V takes more memory than ZB-H1, embedding and head meet on rank 0."""
    heavy = {f"kinds.{kind}.state_bytes": 8 * GIB for kind in ("embedding", "head")}
    write(edited(model(6), heavy), cluster(None, None))
    found = rows(octopipe, 4)
    assert row(found, "zb-v")["peak_memory_bytes"][0] > 16 * GIB > max(row(found, "zb-h1")["peak_memory_bytes"])


# --- a stage for each rank by hand


def test_engines_that_know_no_free_placement_say_so(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #1856: which rank gets which stage, as in DualPipe."""
    file = written(msgspec.structs.replace(v_plan(), kinds={"mamba": "decoder", "mlp": "decoder"}))
    refused = octopipe("export", file, "--to", "megatron")
    assert refused.code == 1
    assert "megatron cannot run this plan" in refused.err
    assert "placement" in refused.err
    assert octopipe("export", file, "--to", "torch-csv").code == 0


def test_module_lists_in_place_of_weights(folder: Path, octopipe: Octopipe) -> None:
    """torchtitan #2093, #1103: a split that counts embedding and head; Automodel #790: the same by hand."""
    file = written(SPLIT)
    assert '"tok_embeddings", "layers.0"' in octopipe("export", file, "--to", "torchtitan").out.replace("'", '"')
    assert "[model.embed_tokens, model.layers.0, model.rotary_emb]" in octopipe("export", file, "--to", "automodel").out


# --- micro-batches and hangs


def test_interleaving_needs_as_many_micro_batches_as_ranks(folder: Path, octopipe: Octopipe) -> None:
    """NeMo Speech #14288: "contiguous micro-batches ... [PP=6, M=3]" was not understood."""
    write(model(10), cluster(*[None] * 6))
    done = octopipe("compare", "model.json", "ranks.json", "-m", 3, "--layout", "Et|" + "t|" * 9 + "|L")
    assert done.code == 2
    assert "micro-batches" in done.err


def test_fewer_micro_batches_than_ranks_is_planned_and_its_bubbles_shown(folder: Path, octopipe: Octopipe) -> None:
    """torchtitan #775: it hung there."""
    write(model(4), cluster(None, None, None))
    few, many = (row(rows(octopipe, count), "1f1b") for count in (1, 8))
    assert few["bubble_ratio"] > 0.6 > many["bubble_ratio"]


def test_transfers_of_1f1b_are_not_hidden(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #4385: 5 to 15 % of a step."""
    steps = []
    for p2p in ("overlapped", "blocking"):
        write(model(4), cluster(None, None, p2p=p2p, bandwidth=2))
        steps.append(row(rows(octopipe, 8), "1f1b")["step_time_ns"])
    assert steps[0] < steps[1] < 2 * steps[0]


def test_orders_that_hang_are_found(folder: Path, octopipe: Octopipe) -> None:
    """Megatron-LM #5240, PyTorch #172668: sends that wait for one another."""
    waiting = order_of("0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1")
    shown = octopipe(
        "show",
        written(
            msgspec.structs.replace(
                gpt("Et|tL", 2, one_f_one_b(2, 2), 2), orders=[[" ".join(map(str, actions))] for actions in waiting]
            )
        ),
    )
    assert (shown.code, "deadlock: " in shown.err) == (1, True)


def test_inference_is_not_planned(folder: Path, octopipe: Octopipe) -> None:
    """SGLang #13282: a plain no: a step here has a backward."""
    forward_alone = {
        f"kinds.{kind}.times.a100.{key}": REMOVED
        for kind in ("embedding", "decoder", "head")
        for key in ("backward_input_ms", "backward_weight_ms")
    }
    write(edited(model(4), forward_alone), cluster(None, None))
    done = octopipe("profile", "show", "model.json")
    assert (done.code, '"backward_input_ms" is missing' in done.err) == (2, True)
