"""Files that ship with the tool: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_files(folder: str) -> dict[str, Path]:
    """Return the shipped JSON files of a folder of ``profiles`` (``hardware``, ``configs``) by name, sorted.

    A wheel holds the folder as ``octopipe_cli/data/<folder>`` (see pyproject.toml), a checkout as
    ``profiles/<folder>``.
    """
    for root in (_PACKAGE / "data", _PACKAGE.parent / "profiles"):
        found = sorted((root / folder).glob("*.json"))
        if found:
            return {path.stem: path for path in found}
    return {}
