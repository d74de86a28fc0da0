"""The completion script for fish: a line for each command, option and argument, under a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from octopipe_cli.cli.shells.tree import Node, Value

HEAD: Final = """\
# Completion of octopipe for fish, printed by `octopipe completion fish`; no Python runs at a TAB.
# To have it: octopipe completion fish > ~/.config/fish/completions/octopipe.fish
"""

#: `__octopipe_at PATH [PLACE]`: are we at that command (and that argument; 3+: the third or a later one)?
BODY: Final = r"""
function __octopipe_at
    set -l path ''
    set -l place 1
    set -l skip 0
    set -l only 0
    set -l words (commandline -opc)
    for word in $words[2..]
        if test $skip = 1
            set skip 0
        else if test $only = 0; and string match -q -- '-?*' $word
            if test $word = --
                set only 1
            else if contains -- $word (__octopipe_valued $path)
                set skip 1
            end
        else if contains -- $word (__octopipe_commands $path)
            set path (string trim -- "$path $word")
            string match -q -- "$path*" $argv[1]; or return 1
        else
            set place (math $place + 1)
        end
    end
    test "$path" = $argv[1]; or return 1
    switch "$argv[2]"
        case ''
            return 0
        case '*+'
            test $place -ge (string trim -c + -- $argv[2])
        case '*'
            test $place = $argv[2]
    end
end

function __octopipe_files
    set -l files (__fish_complete_path (string replace -r -- '^--[a-z-]+=' '' (commandline -ct)))
    set -l folders (string match -r -- '^[^\t]*/(?:\t.*)?$' $files)
    set -l jsons (string match -r -- '^[^\t]*\.json(?:\t.*)?$' $files)
    set -l plans (string match -r -- '^[^\t]*\.plan\.json(?:\t.*)?$' $files)
    switch $argv[1]
        case plan
            test (count $plans) -gt 0; and set jsons $plans
        case json
            set jsons (string match -v -r -- '\.plan\.json(?:\t.*)?$' $jsons)
        case cluster
            set jsons (string match -v -r -- '\.plan\.json(?:\t.*)?$' $jsons) \
                (string match -r -- '^[^\t]*\.(?:yaml|yml|toml)(?:\t.*)?$' $files)
        case folder
            set jsons
        case '*'
            set jsons $files
            set folders
    end
    string join -- \n $folders $jsons
end

complete -c octopipe -f
"""


def script(nodes: Sequence[Node]) -> str:
    """Return the script."""
    commands = _switch("commands", {node.path: list(node.commands) for node in nodes if node.commands})
    valued = _switch("valued", {node.path: list(node.valued) for node in nodes if node.valued})
    return HEAD + commands + valued + BODY + "\n".join(line for node in nodes for line in _lines(node)) + "\n"


def _switch(name: str, rows: dict[tuple[str, ...], list[str]]) -> str:
    """Return a function that prints the words of a path, one a line."""
    lines = ["", f"function __octopipe_{name}", '    switch "$argv[1]"']
    for path, words in rows.items():
        lines += [
            f"        case {_quoted(' '.join(path))}",
            f"            string split -- ' ' {_quoted(' '.join(words))}",
        ]
    return "\n".join([*lines, "    end", "end", ""])


def _lines(node: Node) -> Iterator[str]:
    path = " ".join(node.path)
    for name, text in node.commands.items():
        yield f"{_at(path, '1')} -a {name} -d {_quoted(text)}"
    for flag in node.flags:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
        yield f"{_at(path)} {names}{_value(flag.value)} -d {_quoted(flag.help)}"
    for number, value in enumerate(node.arguments, 1):
        if value.words or value.files:
            yield f"{_at(path, str(number))}{_value(value)}"
    if node.rest is not None and (node.rest.words or node.rest.files):
        yield f"{_at(path, f'{len(node.arguments) + 1}+')}{_value(node.rest)}"


def _at(path: str, place: str = "") -> str:
    condition = f'__octopipe_at "{path}"' + (f" {place}" if place else "")
    return f"complete -c octopipe -n {_quoted(condition)}"


def _value(value: Value | None) -> str:
    if value is None:
        return ""
    offered = [*value.words, *([f"(__octopipe_files {value.files})"] if value.files else [])]
    return " -x" + (f" -a {_quoted(' '.join(offered))}" if offered else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
