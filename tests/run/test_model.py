from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.engines.megatron_orders import one_f_one_b
from octopipe_cli.errors import InputError
from octopipe_cli.plan import Plan
from octopipe_cli.profiling.configs.families import Config, load_config
from octopipe_cli.run.model import ModelWorkload, check_layers
from tests.engines.plans import plan_of
from tests.profiling import tiny_configs


def config(folder: Path, values: dict[str, Any]) -> Config:
    (folder / "config.json").write_text(json.dumps(values))
    return load_config(str(folder / "config.json"))


def plan(decoders: int, cut: int = 1) -> Plan:
    stages = [["embedding", *["t"] * cut], [*["t"] * (decoders - cut), "head"]]
    return plan_of(stages, [0, 1], one_f_one_b(2, 2), 2)


def test_a_config_with_the_plans_layers(tmp_path: Path) -> None:
    assert len(check_layers(plan(3), config(tmp_path, tiny_configs.LLAMA)).layers) == 5


def test_other_layers_are_refused_with_both_counts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the plan is not for this model") as caught:
        check_layers(plan(4), config(tmp_path, tiny_configs.LLAMA))
    assert caught.value.found == "5 layers: 1 embedding, 3 decoder, 1 head"
    assert caught.value.expected == "6 layers, as in the plan: 1 embedding, 4 decoder, 1 head"


def test_mtp_depths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no multi-token prediction"):
        check_layers(plan(3), config(tmp_path, tiny_configs.DEEPSEEK))


def test_shared_decoder_layers_must_not_be_cut_apart(tmp_path: Path) -> None:
    found = config(tmp_path, tiny_configs.ZAMBA2)
    with pytest.raises(InputError, match="share weights and are in different stages"):
        check_layers(plan(3, cut=2), found)
    check_layers(plan(3, cut=1), found)


def test_embedding_and_head_apart_get_weights_of_their_own(tmp_path: Path) -> None:
    found = config(tmp_path, tiny_configs.GEMMA)
    sizes = {"dtype": "fp32", "batch": 1, "length": 8}
    apart = ModelWorkload(plan(2), found.document, check_layers(plan(2), found), **sizes)  # type: ignore[arg-type]
    assert (apart.unties, apart.document["tie_word_embeddings"]) == (True, False)
    whole = plan_of([["embedding", "t", "t", "head"]], [0], one_f_one_b(1, 2), 2)
    together = ModelWorkload(whole, found.document, check_layers(whole, found), **sizes)  # type: ignore[arg-type]
    assert (together.unties, together.document["tie_word_embeddings"]) == (False, True)
    assert found.document["tie_word_embeddings"] is True
