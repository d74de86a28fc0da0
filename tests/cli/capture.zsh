# zsh -f capture.zsh FOLDER LINE...: what zsh completes each line to, after the character 1; a line ends with the
# character 2. The folder holds the script.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word
compadd () {
    local -a hits
    if [[ \${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
        builtin compadd -A hits \"\$@\"
        print -l -- \$'\\1'\$^hits
    fi
    builtin compadd \"\$@\"
}
finish () { print -r -- \$'\\2' }
zle -N finish
bindkey '^B' finish"
zpty -w z 'print -- READY$((1+1))'
zpty -r -m z out '*READY2*'
for line in "${@[2,-1]}"; do
    zpty -w -n z "$line"$'\t\x02'
    zpty -r -m z out $'*\x02\r*'
    print -r -- "$out"
    zpty -w -n z $'\x15'
done
