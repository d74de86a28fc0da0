from __future__ import annotations

import re
from pathlib import Path

from octopipe_cli.diff.kinds import KINDS

SOURCES = Path(__file__).parents[2] / "octopipe_cli" / "diff"


def test_mirrors_are_mutual_and_their_effects_opposite() -> None:
    opposite = {"regression": "improvement", "improvement": "regression", "neutral": "neutral"}
    for kind in KINDS.values():
        mirror = KINDS[kind.mirror]
        assert mirror.mirror == kind.id
        assert mirror.effect == opposite[kind.effect]
        assert mirror.beyond == opposite[kind.beyond]
        assert mirror.unit == kind.unit


def test_ids_are_words_joined_by_hyphens_and_descriptions_one_line() -> None:
    for name, kind in KINDS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)
        assert kind.description == kind.description.strip()
        assert "\n" not in kind.description


def test_every_kind_is_found_somewhere() -> None:
    text = "".join(file.read_text() for file in SOURCES.glob("*.py") if file.name != "kinds.py")
    made = {"profile-changed", "cluster-changed", "profile-rules-changed", "profile-training-changed"}  # put together
    assert [name for name in KINDS if f'"{name}"' not in text and name not in made] == []
