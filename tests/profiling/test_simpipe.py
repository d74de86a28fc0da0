from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import digest, document_text
from octopipe_cli.profile import load_profile, profile_from_document
from octopipe_cli.profiling.simpipe import import_simpipe
from tests import documents
from tests.editing import REMOVED, edited

PAPER = Path(__file__).parents[3] / "shared" / "reference" / "paper_profiles.json"

#: File of profiles/models -> name of the source's profile.
SHIPPED = {
    "jamba-20b": "jamba-20B",
    "jamba-52b": "jamba-52B",
    "llama3-32b": "llama3-32B",
    "llama3-8b": "llama3-8B",
    "nemotron-h-47b": "nemotron-h-47B",
    "nemotron-h-4b": "nemotron-h-4B",
    "nemotron-nano-9b-v2": "nemotron-nano-v2-9B",
}


def source() -> dict[str, Any]:
    return {
        "pattern": "EM-M-*#TL",
        "forward_ms": {"E": 0.1, "M": 1.5, "mlp": 2.5, "attn": 3.5, "moe": 4.5, "T": 5.5, "head": 6.5},
        "backward_ms": {"embedding": 0.2, "mamba": 1.6, "-": 2.6, "*": 3.6, "#": 4.6, "transformer": 5.6, "L": 6.6},
        "weight_ms": {"E": 0, "M": 1.7, "-": 2.7, "attention": 3.7, "L": 6.7},
    }


def imported(folder: Path, changes: dict[str, Any] | None = None, **options: Any) -> Any:
    file = folder / "model.json"
    file.write_text(json.dumps(edited(source(), changes or {})))
    return import_simpipe(str(file), "a100", **options)


def refused(folder: Path, changes: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        imported(folder, changes)
    assert caught.value.file == str(folder / "model.json")
    return caught.value


def test_symbols_and_long_names_give_kinds_with_roles_and_times(tmp_path: Path) -> None:
    document, warnings = imported(tmp_path)
    assert warnings == []
    assert document["layers"] == [
        "embedding",
        {"repeat": 2, "of": ["mamba", "mlp"]},
        "attention",
        "moe",
        "transformer",
        "head",
    ]
    times = {
        name: tuple(kind["times"]["a100"][f"{key}_ms"] for key in ("forward", "backward_input", "backward_weight"))
        for name, kind in document["kinds"].items()
    }
    assert times == {
        "embedding": (0.1, 0.2, 0.0),
        "mamba": (1.5, 1.6, 1.7),
        "mlp": (2.5, 2.6, 2.7),
        "attention": (3.5, 3.6, 3.7),
        "transformer": (5.5, 5.6, 5.6),
        "moe": (4.5, 4.6, 4.6),
        "head": (6.5, 6.6, 6.7),
    }
    profile = profile_from_document(document, "p")
    roles = {name: kind.role for name, kind in profile.kinds.items() if kind.role != "decoder"}
    assert roles == {"embedding": "embedding", "head": "head"}


def test_provenance_names_the_file_not_its_folder(tmp_path: Path) -> None:
    document, _ = imported(tmp_path, note="n")
    assert document["name"] == "model"
    assert document["provenance"] == {
        "method": "imported",
        "format": "simpipe",
        "source": "model.json",
        "source_digest": digest(source()),
        "tool": f"octopipe {__version__}",
        "note": "n",
    }
    assert str(tmp_path) not in json.dumps(document)


@pytest.mark.parametrize("pattern", ["M", "EM", "ML", "EML"])
def test_embedding_and_head_are_implied(tmp_path: Path, pattern: str) -> None:
    document, _ = imported(tmp_path, {"pattern": pattern})
    assert document["layers"] == ["embedding", "mamba", "head"]


def test_a_model_may_have_no_layers_between(tmp_path: Path) -> None:
    assert imported(tmp_path, {"pattern": "EL"}).document["layers"] == ["embedding", "head"]


def test_only_kinds_that_occur_are_written(tmp_path: Path) -> None:
    assert list(imported(tmp_path, {"pattern": "-*"}).document["kinds"]) == ["embedding", "mlp", "attention", "head"]


@pytest.mark.parametrize("change", [{"weight_ms": REMOVED}, {"weight_ms": {}}, {"weight_ms.M": REMOVED}])
def test_a_missing_weight_time_is_the_backward_time(tmp_path: Path, change: dict[str, Any]) -> None:
    document, _ = imported(tmp_path, change)
    assert document["kinds"]["mamba"]["times"]["a100"]["backward_weight_ms"] == 1.6


def test_whole_numbers_are_milliseconds_with_a_warning(tmp_path: Path) -> None:
    whole = {table: dict.fromkeys("EM-*#TL", number) for number, table in ((3, "forward_ms"), (4.0, "backward_ms"))}
    document, warnings = imported(tmp_path, {**whole, "weight_ms": REMOVED})
    assert document["kinds"]["mamba"]["times"]["a100"]["forward_ms"] == 3.0
    assert len(warnings) == 1
    assert "ticks of 0.01 ms" in warnings[0]
    assert imported(tmp_path, {**whole, "weight_ms": {"M": 0.5}}).warnings == []


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"pattern": REMOVED}, "$", 'the key "pattern" is missing'),
        ({"forward_ms": REMOVED}, "$", 'the key "forward_ms" is missing'),
        ({"backward_ms": REMOVED}, "$", 'the key "backward_ms" is missing'),
        ({"pattern": ""}, "$.pattern", "no pattern of layers"),
        ({"pattern": ["M"]}, "$.pattern", "no pattern of layers"),
        ({"pattern": "EMXL"}, "$.pattern", "unknown layer symbol"),
        ({"pattern": "M ML"}, "$.pattern", "unknown layer symbol"),
        ({"pattern": "MEL"}, "$.pattern", "E, the embedding, is not first"),
        ({"pattern": "EEM"}, "$.pattern", "E, the embedding, is not first"),
        ({"pattern": "ELM"}, "$.pattern", "L, the head, is not last"),
        ({"pattern": "MLL"}, "$.pattern", "L, the head, is not last"),
        ({"forward_ms": []}, "$.forward_ms", "not an object"),
        ({"weight_ms": None}, "$.weight_ms", "not an object"),
        ({"forward_ms.M": REMOVED}, "$.forward_ms", "no time for M, mamba"),
        ({"backward_ms.L": REMOVED}, "$.backward_ms", "no time for L, head"),
        ({"pattern": "M", "forward_ms.E": REMOVED}, "$.forward_ms", "no time for E, embedding"),
        ({"forward_ms.X": 1}, "$.forward_ms.X", 'unknown layer "X"'),
        ({"forward_ms.mamba": 1}, "$.forward_ms.mamba", "a second time for M, mamba"),
        ({"forward_ms.M": "1"}, "$.forward_ms.M", "not a time"),
        ({"forward_ms.M": True}, "$.forward_ms.M", "not a time"),
        ({"forward_ms.M": None}, "$.forward_ms.M", "not a time"),
        ({"forward_ms.M": [1, 2]}, "$.forward_ms.M", "not a time"),
        ({"forward_ms.M": -0.1}, "$.forward_ms.M", "not a time"),
        ({"weight_ms.M": 1e9}, "$.weight_ms.M", "not a time"),
        ({"forward": {}}, "$.forward", 'unknown key "forward"'),
    ],
)
def test_what_is_no_simpipe_profile_is_refused(
    tmp_path: Path, changes: dict[str, Any], path: str, message: str
) -> None:
    error = refused(tmp_path, changes)
    assert (error.path, error.message) == (path, message)


def test_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="not an object"):
        import_simpipe(str(tmp_path / "list.json"), "a100")


def test_a_place_is_named_with_its_position(tmp_path: Path) -> None:
    assert refused(tmp_path, {"pattern": "EMXL"}).found == '"X" at position 2'


def test_too_many_layers_are_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, {"pattern": "M" * 10_001})
    assert (error.path, error.message, error.found) == ("$.pattern", "too many layers", "10001")
    assert imported(tmp_path, {"pattern": "M" * 9_998}).document["layers"][1]["repeat"] == 9_998


def test_all_models_are_shipped() -> None:
    shipped = {
        file.stem: load_profile(str(file)).value.provenance["method"] for file in documents.MODELS.glob("*.json")
    }
    assert sorted(name for name, method in shipped.items() if method == "imported") == sorted(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_is_what_the_import_gives(tmp_path: Path, name: str) -> None:
    if not PAPER.exists():
        pytest.skip("the figures the shipped models were made from are not beside this clone")
    file = tmp_path / f"{SHIPPED[name]}.json"
    file.write_text(json.dumps(json.loads(PAPER.read_text())["profiles"][SHIPPED[name]]))
    shipped = documents.MODELS / f"{name}.json"
    note = load_profile(str(shipped)).value.provenance["note"]
    assert "do not state the hardware" in note
    assert document_text(import_simpipe(str(file), "a100", name, note).document) == shipped.read_text()
