"""The completion script for zsh: a function of `_arguments` for each command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from octopipe_cli.cli.shells.tree import Flag, Node, Value

HEAD: Final = """\
#compdef octopipe
# Completion of octopipe for zsh, printed by `octopipe completion zsh`; no Python runs at a TAB.
# To have it: octopipe completion zsh > a folder of $fpath, as the file _octopipe

_octopipe_files() {
    case $1 in
        plan) _files -g '*.plan.json(-.)' || _files -g '*.json(-.)' ;;
        json) _files -g '*.json~*.plan.json(-.)' ;;
        cluster) _files -g '*.(json|yaml|yml|toml)~*.plan.json(-.)' ;;
        folder) _path_files -/ ;;
        *) _files ;;
    esac
}

_octopipe_names() {
    local files=$1 ret=1 expl
    local -a names=("${@:2}")
    _wanted names expl name compadd -a names && ret=0
    [[ -n $files ]] && _octopipe_files $files && ret=0
    return ret
}

_octopipe_below() {
    local name=$1
    curcontext="${curcontext%:*}-${name##*_}:"
    (( $+functions[$name] )) && $name
}
"""

TAIL: Final = """
if [[ $funcstack[1] == _octopipe ]]; then
    _octopipe "$@"
else
    compdef _octopipe octopipe
fi
"""


def script(nodes: Sequence[Node]) -> str:
    """Return the script."""
    return HEAD + "".join(map(_function, nodes)) + TAIL


def _function(node: Node) -> str:
    name = "_".join(("_octopipe", *node.path))
    specs = [_flag(flag) for flag in node.flags]
    if node.commands:
        return _group(name, node, specs)
    specs += [_quoted(f"{n}:{_value(value)}") for n, value in enumerate(node.arguments, 1)]
    specs += [_quoted(f"*:{_value(node.rest)}")] if node.rest is not None else []
    lines = " \\\n".join(f"        {spec}" for spec in specs)
    return f"\n{name}() {{\n    _arguments -s -S : \\\n{lines}\n}}\n"


def _group(name: str, node: Node, specs: list[str]) -> str:
    listed = [_quoted(f"{_escaped(command)}:{help_text}") for command, help_text in node.commands.items()]
    lines = " \\\n".join(f"        {spec}" for spec in (*specs, "'1: :->command'", "'*:: :->rest'"))
    commands = "\n".join(f"                {item}" for item in listed)
    return f"""
{name}() {{
    local context state state_descr ret=1
    local -a line
    local -A opt_args
    _arguments -C -s -S : \\
{lines} && ret=0
    case $state in
        command)
            local -a commands=(
{commands}
            )
            _describe -t commands command commands && ret=0
            ;;
        rest) _octopipe_below {name}_$line[1] && ret=0 ;;
    esac
    return ret
}}
"""


def _flag(flag: Flag) -> str:
    """Return an option as `_arguments` takes it; its names exclude one another, help excludes all."""
    text = _quoted(f"[{_escaped(flag.help)}]" + ("" if flag.value is None else f":{_value(flag.value)}"))
    names = [_name(name, flag.value is not None) for name in flag.names]
    spelled = names[0] if len(names) == 1 else "{" + ",".join(names) + "}"
    if "--help" in flag.names:
        return f"'(- *)'{spelled}{text}"
    if flag.repeated:
        return f"'*'{spelled}{text}"
    return (f"'({' '.join(flag.names)})'" if len(names) > 1 else "") + spelled + text


def _name(name: str, valued: bool) -> str:
    return name + (("=" if name.startswith("--") else "+") if valued else "")


def _value(value: Value) -> str:
    what = _escaped(value.metavar)
    if value.words and (value.files or len(value.words) > 12):
        return f"{what}: _octopipe_names {value.files or chr(34) * 2} {' '.join(value.words)}"
    if value.words:
        return f"{what}:({' '.join(value.words)})"
    return f"{what}: _octopipe_files {value.files}" if value.files else f"{what}: "


def _escaped(text: str) -> str:
    return re.sub(r"([\\\[\]:])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
