"""Golden files of exports; OCTOPIPE_UPDATE_GOLDEN=1 writes them anew for review."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "export"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("OCTOPIPE_UPDATE_GOLDEN") == "1":
            GOLDEN.mkdir(exist_ok=True)
            file.write_bytes(text.encode())
        assert text == file.read_bytes().decode()

    return check
