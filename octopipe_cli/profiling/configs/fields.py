"""Typed access to a config: what is missing or wrong is an error with file and JSON path."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from octopipe_cli.errors import InputError
from octopipe_cli.formats import one_of, path_of, show

LARGEST: Final = 10**9


class Fields:
    """The fields of a config, or of an object in one.

    Parameters
    ----------
    values
        The object.
    file, place
        Where it stands.
    family
        What errors call the model: its ``model_type``.
    outer
        The object around it, for fields that multimodal configs put there.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        file: str,
        family: str,
        place: Sequence[str | int] = (),
        outer: Fields | None = None,
    ) -> None:
        self.values = values
        self.file = file
        self.family = family
        self.place = tuple(place)
        self.outer = outer

    def has(self, *keys: str) -> bool:
        """Return whether one of the keys is there, with a value other than null."""
        return any(self.values.get(key) is not None for key in keys)

    def fail(self, key: str | None, message: str, expected: str | None = None, remedy: str | None = None) -> NoReturn:
        """Raise the error that something is wrong with a key (None: with the object)."""
        path = path_of(self.place if key is None else (*self.place, key))
        found = show(self.values[key]) if key is not None and key in self.values else None
        raise InputError(message, file=self.file, path=path, found=found, expected=expected, remedy=remedy)

    def missing(self, keys: Sequence[str]) -> NoReturn:
        """Raise the error that none of the keys is there."""
        others = [name for name in self.values if name not in keys]
        near = [name for key in keys for name in difflib.get_close_matches(key, others, 1, 0.85)]
        aliases = f" (or {', '.join(show(key) for key in keys[1:])})" if len(keys) > 1 else ""
        raise InputError(
            f"a {self.family} config needs the key {show(keys[0])}{aliases}, which is missing or null",
            file=self.file,
            path=path_of(self.place),
            remedy=f"is {show(near[0])} meant?" if near else "add it as the model's own code reads it",
        )

    def _find(self, keys: Sequence[str]) -> str | None:
        return next((key for key in keys if self.values.get(key) is not None), None)

    def whole(self, *keys: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        """Return the whole number at the first of the keys that is there, else the default; without one it must be."""
        key = self._find(keys)
        if key is None:
            return self.missing(keys) if default is None else default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fail(key, "not a whole number in range", f"{least} to {most}")
        return value

    def optional(self, *keys: str, least: int = 1) -> int | None:
        """Return the whole number at the first of the keys that is there, None where none is."""
        return None if self._find(keys) is None else self.whole(*keys, least=least)

    def number(self, *keys: str, default: float | None = None) -> float:
        """Return the number > 0 at the first of the keys that is there, else the default."""
        key = self._find(keys)
        if key is None:
            return self.missing(keys) if default is None else default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LARGEST:
            self.fail(key, "not a number in range", f"more than 0, at most {LARGEST}")
        return float(value)

    def flag(self, *keys: str, default: bool | None = None) -> bool:
        """Return the true or false at the first of the keys that is there, else the default."""
        key = self._find(keys)
        if key is None:
            return self.missing(keys) if default is None else default
        value = self.values[key]
        if not isinstance(value, bool):
            self.fail(key, "not true or false", "true or false")
        return value

    def text(self, *keys: str, default: str | None = None, choices: Iterable[str] = ()) -> str:
        """Return the text at the first of the keys that is there, else the default; one of the choices, where given."""
        key = self._find(keys)
        if key is None:
            return self.missing(keys) if default is None else default
        value, choices = self.values[key], tuple(choices)
        if not isinstance(value, str):
            self.fail(key, "not text", one_of(choices) if choices else "text")
        if choices and value not in choices:
            self.fail(key, f"a {self.family} with {key} {show(value)} is not known", one_of(choices))
        return value

    def items(self, *keys: str, length: int | None = None) -> list[Any]:
        """Return the list at the first of the keys that is there; it must have the given length."""
        key = self._find(keys)
        if key is None:
            self.missing(keys)
        value = self.values[key]
        if not isinstance(value, list):
            self.fail(key, "not a list", "a list" if length is None else f"a list of {length}")
        if length is not None and len(value) != length:
            at = path_of((*self.place, key))
            raise InputError(
                "the list has another length than the model has layers",
                file=self.file,
                path=at,
                found=str(len(value)),
                expected=str(length),
            )
        return value

    def named(self, *keys: str, choices: Iterable[str], length: int | None = None) -> list[str]:
        """Return a list of names, each one of the choices."""
        values, choices = self.items(*keys, length=length), tuple(choices)
        key = self._find(keys)
        for index, value in enumerate(values):
            if value not in choices:
                raise InputError(
                    f"not a layer that a {self.family} is known to have",
                    file=self.file,
                    path=path_of((*self.place, str(key), index)),
                    found=show(value),
                    expected=one_of(choices),
                )
        return values

    def wholes(self, *keys: str, length: int | None = None, least: int = 0) -> list[int]:
        """Return a list of whole numbers."""
        values = self.items(*keys, length=length)
        key = self._find(keys)
        for index, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
                raise InputError(
                    "not a whole number in range",
                    file=self.file,
                    path=path_of((*self.place, str(key), index)),
                    found=show(value),
                    expected=f"{least} to {LARGEST}",
                )
        return values

    def below(self, *keys: str) -> Fields | None:
        """Return the object at the first of the keys that is there, None where none is."""
        key = self._find(keys)
        if key is None:
            return None
        value = self.values[key]
        if not isinstance(value, Mapping):
            self.fail(key, "not an object", "an object")
        return Fields(value, self.file, self.family, (*self.place, key), self)

    def refuse(self, key: str, allowed: Sequence[Any], why: str) -> None:
        """Raise an error where a key has a value that changes the model in a way that is not known here."""
        if self.has(key) and self.values[key] not in allowed:
            self.fail(key, f"a {self.family} with {why} is not known", one_of([str(value) for value in allowed]))
