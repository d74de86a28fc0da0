# Completion of octopipe for bash, printed by `octopipe completion bash`; no Python runs at a TAB.
# To have it: octopipe completion bash > ~/.local/share/bash-completion/completions/octopipe

_octopipe_node() {
    commands= options= valued=
    case $1 in
        '')
            commands='plan show compare sweep verify diff export run layout init profile models clusters hardware configs schema help completion'
            options='--version -h --help'
            valued=''
            ;;
        'plan')
            commands=''
            options='-m --num-microbatches -o --output --effort --seed --time-limit --jobs --engine --recompute --backward --max-stages-per-rank --placement --objective --warm-start --stability --keep --from --robust-noise --reorder-ranks --lengths --tokens --robust --keep-order --format --no-gantt --check --check-all -h --help'
            valued='-m --num-microbatches -o --output --effort --seed --time-limit --jobs --engine --recompute --backward --max-stages-per-rank --placement --objective --warm-start --stability --keep --from --robust-noise --lengths --robust --format --check'
            ;;
        'show')
            commands=''
            options='--format --no-gantt --why --memory --width --from --to --ranks --full --profile --cluster -h --help'
            valued='--format --width --from --to --ranks --profile --cluster'
            ;;
        'compare')
            commands=''
            options='-m --num-microbatches --plan --recompute --max-stages-per-rank --layout --group-size --lengths --tokens --gantt --format -h --help'
            valued='-m --num-microbatches --plan --recompute --max-stages-per-rank --layout --group-size --lengths --format'
            ;;
        'sweep')
            commands=''
            options='-m --num-microbatches --memory --microbatches --ranks --max-stages-per-rank --bandwidth --noise --draws --plan --effort --seed --jobs --engine --recompute --backward --placement -o --output --svg --format --no-plot -h --help'
            valued='-m --num-microbatches --memory --microbatches --ranks --max-stages-per-rank --bandwidth --noise --draws --plan --effort --seed --jobs --engine --recompute --backward --placement -o --output --svg --format'
            ;;
        'verify')
            commands=''
            options='--profile --cluster --format --fresh --warm-start --all -h --help'
            valued='--profile --cluster --format --warm-start'
            ;;
        'diff')
            commands=''
            options='--base --format --fail-on --max-slowdown --max-memory-growth --min-headroom-gib --config --old-profile --new-profile --old-cluster --new-cluster --kinds -h --help'
            valued='--base --format --fail-on --max-slowdown --max-memory-growth --min-headroom-gib --config --old-profile --new-profile --old-cluster --new-cluster'
            ;;
        'export')
            commands=''
            options='--to -o --output --symbol --comms --profile --cluster -h --help'
            valued='--to -o --output --symbol --profile --cluster'
            ;;
        'run')
            commands=''
            options='--timed --model --check --sequence-length --micro-batch-size --dtype --steps --scale --timeout --device --trace --format --no-gantt -h --help'
            valued='--model --sequence-length --micro-batch-size --dtype --steps --scale --timeout --device --trace --format'
            ;;
        'layout')
            commands='check'
            options='-h --help'
            valued=''
            ;;
        'layout check')
            commands=''
            options='--ranks --layers --mtp --hybrid --format -h --help'
            valued='--ranks --layers --mtp --format'
            ;;
        'init')
            commands=''
            options='--cluster --engine --tensor-parallel --expert-parallel --pipeline-parallel --sequence-length --micro-batch-size --global-batch-size --text-only -o --output --force --format -h --help'
            valued='--cluster --engine --tensor-parallel --expert-parallel --pipeline-parallel --sequence-length --micro-batch-size --global-batch-size -o --output --format'
            ;;
        'profile')
            commands='show estimate measure import calibrate merge'
            options='-h --help'
            valued=''
            ;;
        'profile show')
            commands=''
            options='--format -h --help'
            valued='--format'
            ;;
        'profile estimate')
            commands=''
            options='--hardware --sequence-length --micro-batch-size --tensor-parallel --context-parallel --expert-parallel --data-parallel --sequence-parallel --no-sequence-parallel --zero --dtype --grad-dtype --optimizer --flash-attention --no-flash-attention --granularity --images --image-size --frozen --text-only -o --output --name -h --help'
            valued='--hardware --sequence-length --micro-batch-size --tensor-parallel --context-parallel --expert-parallel --data-parallel --zero --dtype --grad-dtype --optimizer --granularity --images --image-size --frozen -o --output --name'
            ;;
        'profile measure')
            commands=''
            options='--sequence-length --micro-batch-size --device --dtype --kernels --repeats --hardware -o --output --name -h --help'
            valued='--sequence-length --micro-batch-size --device --dtype --kernels --repeats --hardware -o --output --name'
            ;;
        'profile import')
            commands='simpipe trace megatron'
            options='-h --help'
            valued=''
            ;;
        'profile import simpipe')
            commands=''
            options='--hardware -o --output --name --note -h --help'
            valued='--hardware -o --output --name --note'
            ;;
        'profile import trace')
            commands=''
            options='--plan --profile --stage-layers --hardware -o --output --name -h --help'
            valued='--plan --profile --stage-layers --hardware -o --output --name'
            ;;
        'profile import megatron')
            commands=''
            options='--plan --profile --stage-layers -m --num-microbatches --hardware -o --output --name -h --help'
            valued='--plan --profile --stage-layers -m --num-microbatches --hardware -o --output --name'
            ;;
        'profile calibrate')
            commands=''
            options='--measured --scale --hardware --measured-hardware -o --output -h --help'
            valued='--measured --scale --hardware --measured-hardware -o --output'
            ;;
        'profile merge')
            commands=''
            options='-o --output --name --take-larger -h --help'
            valued='-o --output --name'
            ;;
        'models')
            commands=''
            options='--format -h --help'
            valued='--format'
            ;;
        'clusters')
            commands=''
            options='--format -h --help'
            valued='--format'
            ;;
        'hardware')
            commands=''
            options='--format -h --help'
            valued='--format'
            ;;
        'configs')
            commands=''
            options='--format -h --help'
            valued='--format'
            ;;
        'schema')
            commands=''
            options='-h --help'
            valued=''
            ;;
        'help')
            commands=''
            options='-h --help'
            valued=''
            ;;
        'completion')
            commands=''
            options='-h --help'
            valued=''
            ;;
    esac
}

_octopipe_value() {
    case $1 in
        'plan -o' | \
            'plan --output' | \
            'plan --warm-start' | \
            'plan --from' | \
            'plan --check' | \
            'show 1' | \
            'compare --plan' | \
            'sweep --plan' | \
            'verify --warm-start' | \
            'verify 1' | \
            'diff +' | \
            'export 1' | \
            'run 1' | \
            'profile import trace --plan' | \
            'profile import megatron --plan')
            files=plan
            ;;
        'plan --effort' | \
            'sweep --effort')
            words='quick standard thorough'
            ;;
        'plan --engine' | \
            'sweep --engine' | \
            'init --engine')
            words='any torch torchtitan megatron megatron-hybrid deepspeed'
            ;;
        'plan --recompute' | \
            'compare --recompute' | \
            'sweep --recompute')
            words='auto none full'
            ;;
        'plan --backward' | \
            'sweep --backward')
            words='split fused'
            ;;
        'plan --placement' | \
            'sweep --placement')
            words='free cyclic v'
            ;;
        'plan --objective')
            words='step span'
            ;;
        'plan --lengths' | \
            'show --profile' | \
            'show --cluster' | \
            'compare --lengths' | \
            'sweep --svg' | \
            'diff --config' | \
            'export -o' | \
            'export --output' | \
            'export --profile' | \
            'export --cluster' | \
            'run --trace' | \
            'profile import simpipe 1' | \
            'profile import trace +' | \
            'profile import megatron 1' | \
            'profile calibrate --measured')
            files=any
            ;;
        'plan --robust')
            words='mean p95 worst'
            ;;
        'plan --format' | \
            'show --format' | \
            'compare --format' | \
            'verify --format' | \
            'run --format' | \
            'layout check --format' | \
            'init --format' | \
            'profile show --format' | \
            'models --format' | \
            'clusters --format' | \
            'hardware --format' | \
            'configs --format')
            words='text json'
            ;;
        'plan 1' | \
            'compare 1' | \
            'sweep 1' | \
            'verify --profile' | \
            'diff --old-profile' | \
            'diff --new-profile' | \
            'profile show 1' | \
            'profile import trace --profile' | \
            'profile import megatron --profile' | \
            'profile calibrate 1' | \
            'profile merge +')
            words='gemma-3-27b jamba-20b jamba-52b llama3-32b llama3-8b nemotron-h-47b nemotron-h-4b nemotron-nano-9b-v2'
            files=json
            ;;
        'plan 2' | \
            'compare 2' | \
            'sweep 2' | \
            'verify --cluster' | \
            'diff --old-cluster' | \
            'diff --new-cluster' | \
            'init --cluster')
            words='a100-4 a100-8 a100-80gb-2x8 a100-80gb-8'
            files=cluster
            ;;
        'sweep -o' | \
            'sweep --output' | \
            'init -o' | \
            'init --output')
            files=folder
            ;;
        'sweep --format')
            words='text json csv'
            ;;
        'diff --format')
            words='text json markdown github junit'
            ;;
        'diff --fail-on')
            words='any regression never'
            ;;
        'export --to')
            words='megatron megatron-hybrid torch-csv torchtitan automodel deepspeed chrome-trace svg html json csv'
            ;;
        'run --model' | \
            'init 1' | \
            'profile estimate 1' | \
            'profile measure 1')
            words='bamba-9b deepseek-v3 gemma-3-27b glm-4.5 gpt-oss-120b gpt3-175b jamba-1.5-mini kimi-k2 llama-2-70b llama-2-7b llama-3.1-405b llama-3.1-70b llama-3.1-8b minimax-text-01 mixtral-8x7b nemotron-3-super-120b-a12b nemotron-h-8b nemotron-nano-9b-v2 qwen2.5-vl-7b qwen3-30b-a3b qwen3-32b qwen3-8b qwen3-next-80b-a3b'
            files=json
            ;;
        'run --dtype')
            words='fp32 fp64 bf16'
            ;;
        'run --device')
            words='auto cpu cuda'
            ;;
        'profile estimate --hardware')
            words='a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x'
            files=json
            ;;
        'profile estimate --zero')
            words='0 1 2 3'
            ;;
        'profile estimate --dtype')
            words='bf16 fp8'
            ;;
        'profile estimate --grad-dtype')
            words='fp32 bf16'
            ;;
        'profile estimate --optimizer')
            words='adam sgd muon'
            ;;
        'profile estimate --granularity')
            words='layer sublayer'
            ;;
        'profile estimate --frozen')
            words='vision projector'
            ;;
        'profile estimate -o' | \
            'profile estimate --output' | \
            'profile measure -o' | \
            'profile measure --output' | \
            'profile import simpipe -o' | \
            'profile import simpipe --output' | \
            'profile import trace -o' | \
            'profile import trace --output' | \
            'profile import megatron -o' | \
            'profile import megatron --output' | \
            'profile calibrate -o' | \
            'profile calibrate --output' | \
            'profile merge -o' | \
            'profile merge --output')
            files=json
            ;;
        'profile measure --device')
            words='cpu cuda'
            ;;
        'profile measure --dtype')
            words='bf16 fp16 fp32'
            ;;
        'profile measure --kernels')
            words='fused eager'
            ;;
        'profile measure --hardware' | \
            'profile import simpipe --hardware' | \
            'profile import trace --hardware' | \
            'profile import megatron --hardware' | \
            'profile calibrate --hardware' | \
            'profile calibrate --measured-hardware')
            words='a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x'
            ;;
        'profile calibrate --scale')
            words='kind pass'
            ;;
        'schema 1')
            words='profile cluster plan hardware diff'
            ;;
        'help +')
            words='semantics files engines exit-codes plan show compare sweep verify diff export run layout init profile models clusters hardware configs schema help completion'
            ;;
        'completion 1')
            words='bash zsh fish'
            ;;
    esac
}

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
