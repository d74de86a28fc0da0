from __future__ import annotations

from pathlib import Path

import pytest

from tests.render.conftest import GOLDEN


@pytest.fixture
def golden_folder() -> Path:
    return GOLDEN / "diff"
