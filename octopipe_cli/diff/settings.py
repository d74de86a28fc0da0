"""What counts as a failure: the project's ``[diff]`` settings, and the command line's, which win."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal, cast, get_args

from octopipe_cli.config import Config
from octopipe_cli.diff.change import Change, Effect
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.errors import InputError
from octopipe_cli.formats import child_path, did_you_mean, one_of, show

FailOn = Literal["any", "regression", "never"]

#: Settings that stand for a threshold, and the ids it is one of.
SHORT: Final = {"max_slowdown": ("step-time-slower", "span-longer"), "max_memory_growth": ("rank-memory-higher",)}
KEYS: Final = ("fail_on", *SHORT, "min_headroom_gib", "thresholds", "effects")


@dataclass(frozen=True, slots=True)
class Settings:
    """How changes are judged, and which of them are failures."""

    fail_on: FailOn = "regression"
    thresholds: Thresholds = field(default_factory=Thresholds)

    def failing(self, changes: list[Change]) -> list[Change]:
        """Return the changes at or above `fail_on`."""
        if self.fail_on == "any":
            return list(changes)
        return [change for change in changes if self.fail_on == "regression" == change.effect]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a setting stands, for errors: a file and a path, or an option of the command line."""

    file: str | None
    path: str

    def error(self, message: str, found: object, expected: str, remedy: str | None = None) -> InputError:
        return InputError(message, file=self.file, path=self.path, found=show(found), expected=expected, remedy=remedy)


def read_settings(config: Config | None, options: dict[str, Any]) -> Settings:
    """Return the settings: those of the project's file, replaced by the options that are not None.

    Raises
    ------
    InputError
        Where a key, an id or a value is none that can stand there, with its place.
    """
    limits: dict[str, Fraction] = {}
    effects: dict[str, Effect] = {}
    fail_on: FailOn = "regression"
    headroom = 0
    for values, place_of in _sources(config, options):
        for key, value in values.items():
            place = place_of(key)
            if key not in KEYS:
                remedy = did_you_mean(key, KEYS, "delete it")
                raise InputError(f"unknown key {show(key)}", file=place.file, path=place.path, remedy=remedy)
            if key == "fail_on":
                fail_on = cast(FailOn, _choice(value, get_args(FailOn), place))
            elif key == "min_headroom_gib":
                headroom = _gibibytes(value, place)
            elif key in SHORT:
                limits |= dict.fromkeys(SHORT[key], parse_percent(value, place.file, place.path))
    # single ids are named on purpose: they win over what stands for several, but not over the command line
    if config is not None:
        given = {name for key, names in SHORT.items() if options.get(key) is not None for name in names}
        own = _per_id(config)
        limits |= {name: limit for name, limit in own[0].items() if name not in given}
        effects = own[1]
    return Settings(fail_on, Thresholds(limits, effects, headroom))


def _sources(config: Config | None, options: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    sources: list[tuple[dict[str, Any], Any]] = []
    if config is not None:
        path = f"{config.prefix}.diff"
        sources.append((config.tables.get("diff", {}), lambda key: _Place(config.file, child_path(path, key))))
    given = {key: value for key, value in options.items() if value is not None}
    sources.append((given, lambda key: _Place(None, f"--{key.replace('_', '-')}")))
    return sources


def _per_id(config: Config) -> tuple[dict[str, Fraction], dict[str, Effect]]:
    """Return the thresholds and effects of single ids."""
    limits: dict[str, Fraction] = {}
    effects: dict[str, Effect] = {}
    for table in ("thresholds", "effects"):
        path = f"{config.prefix}.diff.{table}"
        values = config.tables.get("diff", {}).get(table, {})
        if not isinstance(values, dict):
            raise _Place(config.file, path).error("not a table", values, "ids of changes, each with a value")
        for name, value in values.items():
            place = _Place(config.file, child_path(path, name))
            known = [kind.id for kind in KINDS.values() if table == "effects" or kind.unit is not None]
            if name not in known:
                what = "no kind of change" if name not in KINDS else "a kind of change without a threshold"
                raise place.error(what, name, one_of(known), did_you_mean(name, known, "") or None)
            if table == "effects":
                effects[name] = cast(Effect, _choice(value, get_args(Effect), place))
            else:
                limits[name] = parse_percent(value, place.file, place.path)
    return limits, effects


def parse_percent(value: object, file: str | None, path: str) -> Fraction:
    """Return a threshold like ``"1.5%"`` as a number of per cent (or percentage points); raises InputError."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", value, re.ASCII) if isinstance(value, str) else None
    if match is None:
        raise _Place(file, path).error("not a percentage", value, "a number and a percent sign: 1.5%")
    return Fraction(match[1])


def _gibibytes(value: object, place: _Place) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e6:
        raise place.error("not a size", value, "GiB, 0 to 1000000")
    return round(Fraction(value) * 2**30)


def _choice(value: Any, known: tuple[str, ...], place: _Place) -> str:
    if value not in known:
        raise place.error("not a value that can stand here", value, one_of(known))
    return str(value)
