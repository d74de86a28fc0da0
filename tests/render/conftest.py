"""Golden files: whole outputs, compared to the byte; OCTOPIPE_UPDATE_GOLDEN=1 writes them anew for review."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def golden_folder() -> Path:
    return GOLDEN / "render"


@pytest.fixture
def golden(golden_folder: Path) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        file = golden_folder / name
        if os.environ.get("OCTOPIPE_UPDATE_GOLDEN") == "1":
            file.write_bytes(text.encode())
        assert text == file.read_bytes().decode()

    return check
