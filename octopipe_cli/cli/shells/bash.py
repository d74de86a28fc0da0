"""The completion script for bash: tables as case statements, and one function that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from octopipe_cli.cli.shells.tree import Node, Value

HEAD: Final = """\
# Completion of octopipe for bash, printed by `octopipe completion bash`; no Python runs at a TAB.
# To have it: octopipe completion bash > ~/.local/share/bash-completion/completions/octopipe
"""

#: Fills COMPREPLY. Words that end in a value's place are kept as "path place": "plan --engine", "plan 1", "diff +".
BODY: Final = r"""
_octopipe_files() {
    local file found=() others=() cur=${2//\\/}
    compopt -o filenames 2>/dev/null
    while IFS= read -r file; do
        if [[ -d ${file/#\~/$HOME} ]]; then
            COMPREPLY+=("$file")
            continue
        fi
        case "$1 $file" in
            folder\ *) ;;
            any\ * | plan\ *.plan.json) found+=("$file") ;;
            plan\ *.json) others+=("$file") ;;
            *.plan.json) ;;
            *.json | cluster\ *.yaml | cluster\ *.yml | cluster\ *.toml) found+=("$file") ;;
        esac
    done < <(compgen -f -- "$cur")
    ((${#found[@]})) || found=("${others[@]}")
    COMPREPLY+=("${found[@]}")
}

_octopipe() {
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} path= wanted= only= words= files= before= at=1 place=1 word
    local commands options valued
    COMPREPLY=()
    _octopipe_node ''
    while ((at < COMP_CWORD)); do
        word=${COMP_WORDS[at++]}
        if [[ $only || $word == - || $word != -* ]]; then
            if [[ $commands ]]; then
                [[ " $commands " == *" $word "* ]] || return 0
                path=${path:+$path }$word
                _octopipe_node "$path"
            else
                ((place++))
            fi
        elif [[ $word == -- ]]; then
            only=1
        elif [[ " $valued " == *" $word "* ]]; then
            [[ ${COMP_WORDS[at]} == = ]] && ((at < COMP_CWORD)) && ((at++)) # --engine=torch is three words
            ((at == COMP_CWORD)) && wanted="$path $word"
            ((at++))
        fi
    done
    [[ $cur == = ]] && cur=
    if [[ ! $wanted && ! $only && $cur == --*=* ]]; then # one word where = does not end one
        wanted="$path ${cur%%=*}" before=${cur%%=*}= cur=${cur#*=}
    fi
    if [[ $wanted ]]; then
        _octopipe_value "$wanted"
    elif [[ ! $only && $cur == -* ]]; then
        words=$options
    elif [[ $commands ]]; then
        words=$commands
    else
        _octopipe_value "$path $place"
        [[ $words || $files ]] || _octopipe_value "$path +"
    fi
    for word in $words; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
    [[ $files ]] && _octopipe_files "$files" "$cur"
    [[ $before ]] && COMPREPLY=("${COMPREPLY[@]/#/$before}")
    return 0
}

complete -F _octopipe octopipe
"""


def script(nodes: Sequence[Node]) -> str:
    """Return the script."""
    return HEAD + _nodes(nodes) + _values(nodes) + BODY


def _nodes(nodes: Sequence[Node]) -> str:
    lines = ["", "_octopipe_node() {", "    commands= options= valued=", "    case $1 in"]
    for node in nodes:
        options = " ".join(name for flag in node.flags for name in flag.names)
        lines += [
            f"        '{' '.join(node.path)}')",
            f"            commands='{' '.join(node.commands)}'",
            f"            options='{options}'",
            f"            valued='{' '.join(node.valued)}'",
            "            ;;",
        ]
    return "\n".join([*lines, "    esac", "}", ""])


def _values(nodes: Sequence[Node]) -> str:
    """Return the function that sets the words and the kind of files of a place; places with the same ones together."""
    places: dict[tuple[tuple[str, ...], str], list[str]] = {}

    def add(value: Value | None, path: tuple[str, ...], place: str) -> None:
        if value is not None and (value.words or value.files):
            places.setdefault((value.words, value.files), []).append(" ".join((*path, place)))

    for node in nodes:
        for flag in node.flags:
            for name in flag.names:
                add(flag.value, node.path, name)
        for number, value in enumerate(node.arguments, 1):
            add(value, node.path, str(number))
        add(node.rest, node.path, "+")
    lines = ["", "_octopipe_value() {", "    case $1 in"]
    for (words, files), names in places.items():
        lines.append("        " + " | \\\n            ".join(f"'{name}'" for name in names) + ")")
        lines += [f"            words='{' '.join(words)}'"] if words else []
        lines += [f"            files={files}"] if files else []
        lines.append("            ;;")
    return "\n".join([*lines, "    esac", "}", ""])
