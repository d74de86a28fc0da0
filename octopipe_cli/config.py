"""The project's own settings: ``[tool.octopipe]`` of pyproject.toml, or octopipe.toml, where the plans are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import did_you_mean, one_of, read_text, show
from octopipe_cli.markup import SUFFIXES, parse_toml

OWN_FILE: Final = "octopipe.toml"
PROJECT_FILE: Final = "pyproject.toml"
#: The tables that may stand there, each read by the command of its name.
TABLES: Final = ("plans", "diff")
ENTRY_KEYS: Final = ("profile", "cluster", "warm_start", "lengths")


@dataclass(frozen=True)
class Config:
    """The settings of a project.

    Attributes
    ----------
    file
        Where they stand, as a user would name it from the current folder.
    prefix
        The JSON path of the tables in it: ``$`` in octopipe.toml, ``$.tool.octopipe`` in pyproject.toml.
    tables
        What stands there, by table.
    """

    file: str
    prefix: str
    tables: dict[str, dict[str, Any]]

    def path(self, name: str) -> str:
        """Return a file named in the settings as the current folder sees it: names there start at the settings."""
        return os.path.normpath(os.path.join(os.path.dirname(self.file), name))

    def input(self, name: str) -> str:
        """Return an input that the settings name: a file, or what has no file's ending and names no file there."""
        file = self.path(name)
        return file if name.endswith(SUFFIXES) or os.path.exists(file) else name


@dataclass(frozen=True)
class PlanEntry:
    """A plan that the settings name, and the files it was made from."""

    plan: str
    profile: str
    cluster: str
    warm_start: str | None = None
    lengths: str | None = None


def read_config(folder: str = ".") -> Config | None:
    """Return the settings of the nearest folder, from this one up to the root of its git repository, that has some.

    Outside of a repository every folder above is looked at; None where there are no settings.

    Raises
    ------
    InputError
        Where a file is no TOML, or has tables that are none of octopipe's.
    """
    for place in _upwards(folder):
        for name in (OWN_FILE, PROJECT_FILE):
            file = os.path.join(place, name)
            if os.path.isfile(file):
                found = _read(os.path.relpath(file))
                if found is not None:
                    return found
    return None


def load_config(file: str) -> Config:
    """Return the settings of one file, whatever folder it is in; raises InputError where it has none."""
    found = _read(file)
    if found is None:
        raise InputError("no settings in the file", file=file, path="$", expected="a table [tool.octopipe]")
    return found


def _upwards(folder: str) -> Iterator[str]:
    here = Path(folder).resolve()
    for place in (here, *here.parents):
        yield str(place)
        if (place / ".git").exists():
            return


def _read(file: str) -> Config | None:
    document: Any = parse_toml(read_text(file), file)
    prefix = "$"
    if os.path.basename(file) == PROJECT_FILE:
        tools = document.get("tool", {})
        document, prefix = (tools.get("octopipe") if isinstance(tools, dict) else None), "$.tool.octopipe"
        if document is None:
            return None
    for name, table in _table(document, file, prefix).items():
        _check_key(name, TABLES, file, f"{prefix}[{show(name)}]")
        _table(table, file, f"{prefix}.{name}")
    return Config(file, prefix, document)


def plan_entries(config: Config) -> list[PlanEntry]:
    """Return the plans that the settings name, in their order: plan file = its inputs.

    Those are profile and cluster; warm_start and lengths where it was made from such files.

    Raises
    ------
    InputError
        Where an entry lacks a file, or says more than that.
    """
    entries = []
    for plan, entry in config.tables.get("plans", {}).items():
        path = f"{config.prefix}.plans[{show(plan)}]"
        for key, value in _table(entry, config.file, path).items():
            _check_key(key, ENTRY_KEYS, config.file, f"{path}[{show(key)}]")
            if not isinstance(value, str) or not value or value == "-":
                raise InputError("not a file's name", file=config.file, path=f"{path}.{key}", found=show(value))
        for key in ("profile", "cluster"):
            if key not in entry:
                raise InputError(f'the key "{key}" is missing', file=config.file, path=path)
        files = (config.path(plan), config.input(entry["profile"]), config.input(entry["cluster"]))
        more = [None if entry.get(key) is None else config.path(entry[key]) for key in ("warm_start", "lengths")]
        entries.append(PlanEntry(*files, *more))
    return entries


def _table(value: Any, file: str, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("not a table", file=file, path=path, found=show(value), expected="a table of TOML")
    return value


def _check_key(name: str, known: tuple[str, ...], file: str, path: str) -> None:
    if name not in known:
        remedy = did_you_mean(name, known, f"expected {one_of(known)}")
        raise InputError(f"unknown key {show(name)}", file=file, path=path, remedy=remedy)
