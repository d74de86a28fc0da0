"""Profiles from files of the SimPipe simulator: a pattern of layer symbols and times for each symbol."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import (
    VERSION,
    Document,
    did_you_mean,
    digest,
    one_of,
    parse_json,
    path_of,
    read_text,
    shown_file,
)
from octopipe_cli.formats import show as quoted
from octopipe_cli.profile import MAX_LAYERS, SCHEMA, compress, profile_from_document

#: Layer symbol -> kind name, in the order kinds are written.
KINDS: Final[Mapping[str, str]] = {
    "E": "embedding",
    "M": "mamba",
    "-": "mlp",
    "*": "attention",
    "T": "transformer",
    "#": "moe",
    "L": "head",
}

#: What the time tables may call a symbol.
SYMBOLS: Final[Mapping[str, str]] = {
    **{symbol: symbol for symbol in KINDS},
    **{name: symbol for symbol, name in KINDS.items()},
    "attn": "*",
}

TABLES: Final = ("forward_ms", "backward_ms", "weight_ms")
MAX_MS: Final = 1e8


class Imported(NamedTuple):
    """A profile document and what its reader should know about it."""

    document: Document
    warnings: list[str]


def import_simpipe(file: str, hardware: str, name: str | None = None, note: str | None = None) -> Imported:
    """Return the profile of a simpipe file.

    Parameters
    ----------
    file
        The file, ``-`` for standard input.
    hardware
        What the times were taken on: simpipe files do not say.
    name
        Of the profile; by default the file's name without its endings.
    note
        Goes into the provenance.

    Raises
    ------
    InputError
        With file and JSON path, where it is no such file, or a symbol or a time is missing or wrong.
    """
    source = parse_json(read_text(file), file)
    shown = shown_file(file)
    if not isinstance(source, dict):
        raise InputError("not an object", file=shown, path="$", found=quoted(source), expected="a simpipe object")
    _check_keys(source, shown)
    symbols = _pattern(source, shown)
    tables = {table: _table(source, table, shown) for table in TABLES}
    document: Document = {
        "schema": SCHEMA,
        "version": VERSION,
        "name": _name(file) if name is None else name,
        "provenance": {
            "method": "imported",
            "format": "simpipe",
            "source": shown if file == "-" else os.path.basename(file),
            "source_digest": digest(source),
            "tool": f"octopipe {__version__}",
            **({"note": note} if note else {}),
        },
        "kinds": {KINDS[symbol]: _kind(symbol, tables, hardware, shown) for symbol in KINDS if symbol in symbols},
        "layers": compress(tuple(KINDS[symbol] for symbol in symbols)),
    }
    profile_from_document(document, shown)
    return Imported(document, _warnings(tables, shown))


def _name(file: str) -> str:
    if file == "-":
        raise InputError("a profile from standard input needs a name", remedy="give one with --name")
    return os.path.basename(file).removesuffix(".json").removesuffix(".simpipe") or "model"


def _check_keys(source: Mapping[str, Any], file: str) -> None:
    known = ("pattern", *TABLES)
    for key in source:
        if key not in known:
            remedy = did_you_mean(key, known, "delete it: the format has " + ", ".join(known))
            raise InputError(f"unknown key {quoted(key)}", file=file, path=path_of([key]), remedy=remedy)
    for key in known[:3]:
        if key not in source:
            remedy = f"add {quoted(key)}" + ("" if source else ", if this is a simpipe profile at all")
            raise InputError(f"the key {quoted(key)} is missing", file=file, path="$", remedy=remedy)


def _pattern(source: Mapping[str, Any], file: str) -> str:
    """Return the symbols of all layers, the embedding and the head that a pattern may leave out put in."""
    pattern, path = source["pattern"], "$.pattern"
    if not isinstance(pattern, str) or not pattern:
        raise InputError(
            "no pattern of layers", file=file, path=path, found=quoted(pattern), expected="text, a symbol a layer"
        )
    if len(pattern) > MAX_LAYERS:
        found = str(len(pattern))
        raise InputError("too many layers", file=file, path=path, found=found, expected=f"at most {MAX_LAYERS}")
    for position, symbol in enumerate(pattern):
        if symbol not in KINDS:
            known = ", ".join(f"{symbol} {kind}" for symbol, kind in KINDS.items())
            found = f"{quoted(symbol)} at position {position}"
            raise InputError("unknown layer symbol", file=file, path=path, found=found, expected=f"one of {known}")
        if symbol == "E" and position > 0:
            raise InputError(
                "E, the embedding, is not first",
                file=file,
                path=path,
                found=f"E at position {position}",
                remedy="put it first, or leave it out",
            )
        if symbol == "L" and position < len(pattern) - 1:
            raise InputError(
                "L, the head, is not last",
                file=file,
                path=path,
                found=f"L at position {position}",
                remedy="put it last, or leave it out",
            )
    return "E" * (pattern[0] != "E") + pattern + "L" * (pattern[-1] != "L")


def _table(source: Mapping[str, Any], table: str, file: str) -> dict[str, float]:
    """Return the times of a table by symbol."""
    entries = source.get(table, {})
    if not isinstance(entries, dict):
        raise InputError(
            "not an object",
            file=file,
            path=f"$.{table}",
            found=quoted(entries),
            expected="symbol -> ms per micro-batch",
        )
    times: dict[str, float] = {}
    for key, value in entries.items():
        path = path_of([table, key])
        symbol = SYMBOLS.get(key)
        if symbol is None:
            raise InputError(
                f"unknown layer {quoted(key)}",
                file=file,
                path=path,
                expected=one_of(SYMBOLS),
                remedy=did_you_mean(key, SYMBOLS, "correct or delete it"),
            )
        if symbol in times:
            raise InputError(f"a second time for {symbol}, {KINDS[symbol]}", file=file, path=path, remedy="delete one")
        number = not isinstance(value, bool) and isinstance(value, (int, float))
        if not number or not 0 <= value <= MAX_MS:
            raise InputError(
                "not a time", file=file, path=path, found=quoted(value), expected=f"milliseconds, 0 to {MAX_MS:g}"
            )
        times[symbol] = float(value)
    return times


def _kind(symbol: str, tables: Mapping[str, Mapping[str, float]], hardware: str, file: str) -> Document:
    name = KINDS[symbol]
    for table in TABLES[:2]:
        if symbol not in tables[table]:
            raise InputError(
                f"no time for {symbol}, {name}",
                file=file,
                path=f"$.{table}",
                expected=f"a key {quoted(symbol)} or {quoted(name)}",
                remedy="the pattern has such a layer (E and L are implied where it lacks them): add its time",
            )
    backward = tables["backward_ms"][symbol]
    role = {"role": name} if name in ("embedding", "head") else {}
    times = {
        "forward_ms": tables["forward_ms"][symbol],
        "backward_input_ms": backward,
        "backward_weight_ms": tables["weight_ms"].get(symbol, backward),  # the format's default
    }
    return {**role, "times": {hardware: times}}


def _warnings(tables: Mapping[str, Mapping[str, float]], file: str) -> list[str]:
    values = [value for table in tables.values() for value in table.values()]
    if all(math.floor(value) == value for value in values):
        return [
            f"{file}: every time is a whole number. They are taken as milliseconds;"
            " SimPipe itself would take them as ticks of 0.01 ms"
        ]
    return []
