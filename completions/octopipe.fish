# Completion of octopipe for fish, printed by `octopipe completion fish`; no Python runs at a TAB.
# To have it: octopipe completion fish > ~/.config/fish/completions/octopipe.fish

function __octopipe_commands
    switch "$argv[1]"
        case ''
            string split -- ' ' 'plan show compare sweep verify diff export run layout profile schema completion'
        case 'layout'
            string split -- ' ' 'check'
        case 'profile'
            string split -- ' ' 'show estimate measure import calibrate merge'
        case 'profile import'
            string split -- ' ' 'simpipe trace megatron'
    end
end

function __octopipe_valued
    switch "$argv[1]"
        case 'plan'
            string split -- ' ' '-m --num-microbatches -o --output --effort --seed --time-limit --jobs --engine --recompute --backward --max-stages-per-rank --placement --objective --warm-start --stability --keep --from --robust-noise --format --check'
        case 'show'
            string split -- ' ' '--format --width --from --to --ranks'
        case 'compare'
            string split -- ' ' '-m --num-microbatches --plan --recompute --max-stages-per-rank --layout --group-size --format'
        case 'sweep'
            string split -- ' ' '-m --num-microbatches --memory --microbatches --ranks --max-stages-per-rank --bandwidth --noise --draws --plan --effort --seed --jobs --engine --recompute --backward --placement -o --output --svg --format'
        case 'verify'
            string split -- ' ' '--profile --cluster --format --warm-start'
        case 'diff'
            string split -- ' ' '--base --format --fail-on --max-slowdown --max-memory-growth --min-headroom-gib --config --old-profile --new-profile --old-cluster --new-cluster'
        case 'export'
            string split -- ' ' '--to -o --output --symbol'
        case 'run'
            string split -- ' ' '--model --sequence-length --micro-batch-size --dtype --steps --scale --timeout --device --trace --format'
        case 'layout check'
            string split -- ' ' '--ranks --layers --mtp --format'
        case 'profile show'
            string split -- ' ' '--format'
        case 'profile estimate'
            string split -- ' ' '--hardware --sequence-length --micro-batch-size --tensor-parallel --context-parallel --expert-parallel --data-parallel --zero --dtype --grad-dtype --optimizer --granularity -o --output --name'
        case 'profile measure'
            string split -- ' ' '--sequence-length --micro-batch-size --device --dtype --kernels --repeats --hardware -o --output --name'
        case 'profile import simpipe'
            string split -- ' ' '--hardware -o --output --name --note'
        case 'profile import trace'
            string split -- ' ' '--plan --profile --stage-layers --hardware -o --output --name'
        case 'profile import megatron'
            string split -- ' ' '--plan --profile --stage-layers -m --num-microbatches --hardware -o --output --name'
        case 'profile calibrate'
            string split -- ' ' '--measured --scale --hardware --measured-hardware -o --output'
        case 'profile merge'
            string split -- ' ' '-o --output --name'
    end
end

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
complete -c octopipe -n '__octopipe_at "" 1' -a plan -d 'Find partition, placement and schedule together, write the plan and show it.'
complete -c octopipe -n '__octopipe_at "" 1' -a show -d 'Show the Gantt chart and the report of a plan, from its file alone.'
complete -c octopipe -n '__octopipe_at "" 1' -a compare -d 'List the classic schedules on the same inputs, a plan and layouts written by hand beside them.'
complete -c octopipe -n '__octopipe_at "" 1' -a sweep -d 'Plan over a range of memory, micro-batches, ranks, stages or bandwidth; or replay one plan under noise.'
complete -c octopipe -n '__octopipe_at "" 1' -a verify -d 'Check a plan against its profile and cluster, rule by rule.'
complete -c octopipe -n '__octopipe_at "" 1' -a diff -d 'Compare two plans: times, memory, partition, placement, orders, request and inputs.'
complete -c octopipe -n '__octopipe_at "" 1' -a export -d 'Write a plan in the format of an engine or a viewer; the table of what each rank holds goes to standard error.'
complete -c octopipe -n '__octopipe_at "" 1' -a run -d 'Run a plan with PyTorch: its ranks as processes of this machine, or those that torchrun has started.'
complete -c octopipe -n '__octopipe_at "" 1' -a layout -d 'Judge layouts written by hand.'
complete -c octopipe -n '__octopipe_at "" 1' -a profile -d 'Make and look at model profiles.'
complete -c octopipe -n '__octopipe_at "" 1' -a schema -d 'Print the JSON Schema (draft 2020-12) of a file, or of what `octopipe diff --format json` prints.'
complete -c octopipe -n '__octopipe_at "" 1' -a completion -d 'Print the completion script for a shell; its first lines say where it goes.'
complete -c octopipe -n '__octopipe_at ""' -l version -d 'Print the version and leave'
complete -c octopipe -n '__octopipe_at ""' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "plan"' -s m -l num-microbatches -x -d 'Micro-batches of a step'
complete -c octopipe -n '__octopipe_at "plan"' -s o -l output -x -a '(__octopipe_files plan)' -d 'The plan file'
complete -c octopipe -n '__octopipe_at "plan"' -l effort -x -a 'quick standard thorough' -d 'How much is tried: a fixed amount of work, not of time'
complete -c octopipe -n '__octopipe_at "plan"' -l seed -x -d 'Of every random choice'
complete -c octopipe -n '__octopipe_at "plan"' -l time-limit -x -d 'A safety net: the best plan by then'
complete -c octopipe -n '__octopipe_at "plan"' -l jobs -x -d 'Searches side by side'
complete -c octopipe -n '__octopipe_at "plan"' -l engine -x -a 'any torch torchtitan megatron megatron-hybrid deepspeed' -d 'What is to run the plan: the search keeps to what that engine executes'
complete -c octopipe -n '__octopipe_at "plan"' -l recompute -x -a 'auto none full' -d 'Activation recomputation: where it pays, never, always'
complete -c octopipe -n '__octopipe_at "plan"' -l backward -x -a 'split fused' -d 'Whether backward may be split in input and weights'
complete -c octopipe -n '__octopipe_at "plan"' -l max-stages-per-rank -x -d 'At most so many stages a rank'
complete -c octopipe -n '__octopipe_at "plan"' -l placement -x -a 'free cyclic v' -d 'Which rank a stage may sit on'
complete -c octopipe -n '__octopipe_at "plan"' -l objective -x -a 'step span' -d 'What is minimised: the step\'s time with its flush, or the longest span of...'
complete -c octopipe -n '__octopipe_at "plan"' -l warm-start -x -a '(__octopipe_files plan)' -d 'Begin from this plan too, so that small changes of the inputs change little'
complete -c octopipe -n '__octopipe_at "plan"' -l stability -x -d 'With --warm-start: a plan up to W per cent (1%, 0.5%) slower than the...'
complete -c octopipe -n '__octopipe_at "plan"' -l keep -x -d 'Hold these parts of --from\'s plan fixed, with commas between: partition...'
complete -c octopipe -n '__octopipe_at "plan"' -l from -x -a '(__octopipe_files plan)' -d 'With --keep: the plan with these parts'
complete -c octopipe -n '__octopipe_at "plan"' -l robust-noise -x -d 'Of plans up to 0.5 % slower than the best found, take the one with the...'
complete -c octopipe -n '__octopipe_at "plan"' -l format -x -a 'text json' -d 'How the report is printed'
complete -c octopipe -n '__octopipe_at "plan"' -l no-gantt -d 'Print no chart'
complete -c octopipe -n '__octopipe_at "plan"' -l check -x -a '(__octopipe_files plan)' -d 'Write nothing: is this plan still what PROFILE and CLUSTER give (its own...'
complete -c octopipe -n '__octopipe_at "plan"' -l check-all -d '--check of all plans that the settings name'
complete -c octopipe -n '__octopipe_at "plan"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "plan" 1' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "plan" 2' -x -a '(__octopipe_files cluster)'
complete -c octopipe -n '__octopipe_at "show"' -l format -x -a 'text json' -d 'text: chart and report'
complete -c octopipe -n '__octopipe_at "show"' -l no-gantt -d 'Leave out the chart'
complete -c octopipe -n '__octopipe_at "show"' -l why -d 'Say why the step takes so long, and what would help, with the numbers'
complete -c octopipe -n '__octopipe_at "show"' -l width -x -d 'Width, at least 60 [default: the terminal\'s].'
complete -c octopipe -n '__octopipe_at "show"' -l from -x -d 'Show the time from here on, in milliseconds'
complete -c octopipe -n '__octopipe_at "show"' -l to -x -d 'Show the time up to here, in milliseconds'
complete -c octopipe -n '__octopipe_at "show"' -l ranks -x -d 'Show these ranks: 0,2-5'
complete -c octopipe -n '__octopipe_at "show"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "show" 1' -x -a '(__octopipe_files plan)'
complete -c octopipe -n '__octopipe_at "compare"' -s m -l num-microbatches -x -d 'Micro-batches of a step'
complete -c octopipe -n '__octopipe_at "compare"' -l plan -x -a '(__octopipe_files plan)' -d 'A plan for these inputs, as a row'
complete -c octopipe -n '__octopipe_at "compare"' -l recompute -x -a 'auto none full' -d 'Activation recomputation of the classic schedules'
complete -c octopipe -n '__octopipe_at "compare"' -l max-stages-per-rank -x -d 'At most so many stages a rank'
complete -c octopipe -n '__octopipe_at "compare"' -l layout -x -d 'A layout string of Megatron-LM\'s, as a row'
complete -c octopipe -n '__octopipe_at "compare"' -l group-size -x -d 'Micro-batches of a group where a layout is interleaved'
complete -c octopipe -n '__octopipe_at "compare"' -l format -x -a 'text json' -d 'How the rows are printed'
complete -c octopipe -n '__octopipe_at "compare"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "compare" 1' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "compare" 2' -x -a '(__octopipe_files cluster)'
complete -c octopipe -n '__octopipe_at "sweep"' -s m -l num-microbatches -x -d 'Micro-batches of a step'
complete -c octopipe -n '__octopipe_at "sweep"' -l memory -x -d 'Memory of every rank, in GiB: first:last:step (40:80:5) or a list...'
complete -c octopipe -n '__octopipe_at "sweep"' -l microbatches -x -d 'Micro-batches of a step: 8,16,32 or 8:64:8'
complete -c octopipe -n '__octopipe_at "sweep"' -l ranks -x -d 'Ranks, the first ones of a cluster whose ranks are alike: 2,4,8'
complete -c octopipe -n '__octopipe_at "sweep"' -l max-stages-per-rank -x -d 'Stages a rank at the most: 1:8'
complete -c octopipe -n '__octopipe_at "sweep"' -l bandwidth -x -d 'Bandwidth of the links between nodes, in GB/s (of those within the node,...'
complete -c octopipe -n '__octopipe_at "sweep"' -l noise -x -d 'In place of a sweep: by how many per cent the profile\'s times may be off...'
complete -c octopipe -n '__octopipe_at "sweep"' -l draws -x -d 'How many draws'
complete -c octopipe -n '__octopipe_at "sweep"' -l plan -x -a '(__octopipe_files plan)' -d 'The plan to replay'
complete -c octopipe -n '__octopipe_at "sweep"' -l effort -x -a 'quick standard thorough' -d 'How much is tried for each plan'
complete -c octopipe -n '__octopipe_at "sweep"' -l seed -x -d 'Of every random choice, and of the draws'
complete -c octopipe -n '__octopipe_at "sweep"' -l jobs -x -d 'Searches side by side'
complete -c octopipe -n '__octopipe_at "sweep"' -l engine -x -a 'any torch torchtitan megatron megatron-hybrid deepspeed' -d 'What is to run the plans'
complete -c octopipe -n '__octopipe_at "sweep"' -l recompute -x -a 'auto none full' -d 'Activation recomputation: where it pays, never, always'
complete -c octopipe -n '__octopipe_at "sweep"' -l backward -x -a 'split fused' -d 'Whether backward may be split in input and weights'
complete -c octopipe -n '__octopipe_at "sweep"' -l placement -x -a 'free cyclic v' -d 'Which rank a stage may sit on'
complete -c octopipe -n '__octopipe_at "sweep"' -s o -l output -x -a '(__octopipe_files folder)' -d 'Keep each point\'s plan in this folder, and its cluster where that is what...'
complete -c octopipe -n '__octopipe_at "sweep"' -l svg -x -a '(__octopipe_files any)' -d 'Write the chart as a picture too'
complete -c octopipe -n '__octopipe_at "sweep"' -l format -x -a 'text json csv' -d 'How the points are printed'
complete -c octopipe -n '__octopipe_at "sweep"' -l no-plot -d 'Print no chart'
complete -c octopipe -n '__octopipe_at "sweep"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "sweep" 1' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "sweep" 2' -x -a '(__octopipe_files cluster)'
complete -c octopipe -n '__octopipe_at "verify"' -l profile -x -a '(__octopipe_files json)' -d 'The model profile the plan was made from'
complete -c octopipe -n '__octopipe_at "verify"' -l cluster -x -a '(__octopipe_files cluster)' -d 'The cluster spec the plan was made from'
complete -c octopipe -n '__octopipe_at "verify"' -l format -x -a 'text json' -d 'How the findings are printed'
complete -c octopipe -n '__octopipe_at "verify"' -l fresh -d 'Is it also what they give today? As `octopipe plan --check`: 1 where not,...'
complete -c octopipe -n '__octopipe_at "verify"' -l warm-start -x -a '(__octopipe_files plan)' -d 'With --fresh: the plan that the search began from, if it did'
complete -c octopipe -n '__octopipe_at "verify"' -l all -d 'In place of PLAN, profile and cluster: all plans that the settings name...'
complete -c octopipe -n '__octopipe_at "verify"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "verify" 1' -x -a '(__octopipe_files plan)'
complete -c octopipe -n '__octopipe_at "diff"' -l base -x -d 'Compare the plans at or below the paths named with those of a git revision'
complete -c octopipe -n '__octopipe_at "diff"' -l format -x -a 'text json markdown github junit' -d 'markdown: a pull request\'s comment'
complete -c octopipe -n '__octopipe_at "diff"' -l fail-on -x -a 'any regression never' -d 'Leave with 1 for these [default: regression].'
complete -c octopipe -n '__octopipe_at "diff"' -l max-slowdown -x -d 'Slower by up to this is neutral: 1%.'
complete -c octopipe -n '__octopipe_at "diff"' -l max-memory-growth -x -d 'More peak memory of a rank than this is a regression: 5%.'
complete -c octopipe -n '__octopipe_at "diff"' -l min-headroom-gib -x -d 'What must be left of a rank\'s memory, in GiB [default: 0].'
complete -c octopipe -n '__octopipe_at "diff"' -l config -x -a '(__octopipe_files any)' -d 'Read these settings [default: [tool.octopipe.diff] of pyproject.toml, or...'
complete -c octopipe -n '__octopipe_at "diff"' -l old-profile -x -a '(__octopipe_files json)' -d 'The profile of OLD: what changed in it is told too'
complete -c octopipe -n '__octopipe_at "diff"' -l new-profile -x -a '(__octopipe_files json)' -d 'The profile of NEW'
complete -c octopipe -n '__octopipe_at "diff"' -l old-cluster -x -a '(__octopipe_files cluster)' -d 'The cluster of OLD: what changed in it is told too'
complete -c octopipe -n '__octopipe_at "diff"' -l new-cluster -x -a '(__octopipe_files cluster)' -d 'The cluster of NEW'
complete -c octopipe -n '__octopipe_at "diff"' -l kinds -d 'List the ids of all changes, with their effects and thresholds, and leave'
complete -c octopipe -n '__octopipe_at "diff"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "diff" 1+' -x -a '(__octopipe_files plan)'
complete -c octopipe -n '__octopipe_at "export"' -l to -x -a 'megatron megatron-hybrid torch-csv torchtitan automodel deepspeed chrome-trace svg html json csv' -d 'What to write'
complete -c octopipe -n '__octopipe_at "export"' -s o -l output -x -a '(__octopipe_files any)' -d 'Where it goes'
complete -c octopipe -n '__octopipe_at "export"' -l symbol -x -d 'Of megatron-hybrid: the symbol of a layer kind, where its name does not...'
complete -c octopipe -n '__octopipe_at "export"' -l comms -d 'Of torch-csv: with sends and receives, in the order in which they are...'
complete -c octopipe -n '__octopipe_at "export"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "export" 1' -x -a '(__octopipe_files plan)'
complete -c octopipe -n '__octopipe_at "run"' -l timed -d 'Layers that compute nothing and take the plan\'s times'
complete -c octopipe -n '__octopipe_at "run"' -l model -x -a 'bamba-9b deepseek-v3 gemma-3-27b glm-4.5 gpt-oss-120b gpt3-175b jamba-1.5-mini kimi-k2 llama-2-70b llama-2-7b llama-3.1-405b llama-3.1-70b llama-3.1-8b minimax-text-01 mixtral-8x7b nemotron-3-super-120b-a12b nemotron-h-8b nemotron-nano-9b-v2 qwen3-30b-a3b qwen3-32b qwen3-8b qwen3-next-80b-a3b (__octopipe_files json)' -d 'The layers of a Hugging Face config.json, or of one that ships, at random...'
complete -c octopipe -n '__octopipe_at "run"' -l check -d 'Compare loss and every gradient with a run in one process'
complete -c octopipe -n '__octopipe_at "run"' -l sequence-length -x -d 'Positions of a sequence'
complete -c octopipe -n '__octopipe_at "run"' -l micro-batch-size -x -d 'Sequences of a micro-batch'
complete -c octopipe -n '__octopipe_at "run"' -l dtype -x -a 'fp32 fp64 bf16' -d 'The number format of weights and activations'
complete -c octopipe -n '__octopipe_at "run"' -l steps -x -d 'Training steps'
complete -c octopipe -n '__octopipe_at "run"' -l scale -x -d 'With --timed: stretch all times by this factor'
complete -c octopipe -n '__octopipe_at "run"' -l timeout -x -d 'Stop when no rank has ended an action for so long'
complete -c octopipe -n '__octopipe_at "run"' -l device -x -a 'auto cpu cuda' -d 'auto: cuda where every rank has a GPU of its own, else cpu'
complete -c octopipe -n '__octopipe_at "run"' -l trace -x -a '(__octopipe_files any)' -d 'Write the measured step as a trace for Perfetto'
complete -c octopipe -n '__octopipe_at "run"' -l format -x -a 'text json' -d 'text: chart and figures'
complete -c octopipe -n '__octopipe_at "run"' -l no-gantt -d 'Leave out the chart'
complete -c octopipe -n '__octopipe_at "run"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "run" 1' -x -a '(__octopipe_files plan)'
complete -c octopipe -n '__octopipe_at "layout" 1' -a check -d 'Check a layout string of Megatron-LM\'s, and list what each rank holds.'
complete -c octopipe -n '__octopipe_at "layout"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "layout check"' -l ranks -x -d 'Pipeline ranks'
complete -c octopipe -n '__octopipe_at "layout check"' -l layers -x -d 'Decoder layers of the model'
complete -c octopipe -n '__octopipe_at "layout check"' -l mtp -x -d 'MTP depths of the model'
complete -c octopipe -n '__octopipe_at "layout check"' -l hybrid -d 'It is a pattern of --hybrid-layer-pattern'
complete -c octopipe -n '__octopipe_at "layout check"' -l format -x -a 'text json' -d 'How the verdict is printed'
complete -c octopipe -n '__octopipe_at "layout check"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile" 1' -a show -d 'Show the layers, times and sizes of a model profile.'
complete -c octopipe -n '__octopipe_at "profile" 1' -a estimate -d 'Estimate a profile from a model\'s config: a roofline for each operation, and the bytes each layer keeps.'
complete -c octopipe -n '__octopipe_at "profile" 1' -a measure -d 'Measure a model\'s layers with PyTorch and transformers: one of each kind, at random weights.'
complete -c octopipe -n '__octopipe_at "profile" 1' -a import -d 'Make a profile from another tool\'s file.'
complete -c octopipe -n '__octopipe_at "profile" 1' -a calibrate -d 'Scale a profile\'s times to measured ones, and report what remains.'
complete -c octopipe -n '__octopipe_at "profile" 1' -a merge -d 'Make one profile with the hardware columns of several, for clusters of mixed hardware.'
complete -c octopipe -n '__octopipe_at "profile"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile show"' -l format -x -a 'text json' -d 'How the profile is printed'
complete -c octopipe -n '__octopipe_at "profile show"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile show" 1' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x (__octopipe_files json)' -d 'A hardware that ships with octopipe (h100-sxm, say), or a .json file'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l sequence-length -x -d 'Positions of a sample'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l micro-batch-size -x -d 'Samples of a micro-batch'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l tensor-parallel -x -d 'Devices a layer is cut over'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l context-parallel -x -d 'Devices a sample is cut over'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l expert-parallel -x -d 'Replicas that share the experts'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l data-parallel -x -d 'Replicas of the pipeline, those that share experts among them'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l sequence-parallel -l no-sequence-parallel -d 'Cut norms and stage boundaries over the tensor-parallel devices too'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l zero -x -a '0 1 2 3' -d 'What replicas share: 1 optimizer states, 2 and gradients, 3 and weights'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l dtype -x -a 'bf16 fp8' -d 'Of matrix products'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l grad-dtype -x -a 'fp32 bf16' -d 'Of weights\' gradients'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l optimizer -x -a 'adam sgd muon' -d 'sgd: with momentum'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l flash-attention -l no-flash-attention -d 'Whether attention scores stay on the chip'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l granularity -x -a 'layer sublayer' -d 'layer: as the config counts them'
complete -c octopipe -n '__octopipe_at "profile estimate"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile estimate"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile estimate"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile estimate" 1' -x -a 'bamba-9b deepseek-v3 gemma-3-27b glm-4.5 gpt-oss-120b gpt3-175b jamba-1.5-mini kimi-k2 llama-2-70b llama-2-7b llama-3.1-405b llama-3.1-70b llama-3.1-8b minimax-text-01 mixtral-8x7b nemotron-3-super-120b-a12b nemotron-h-8b nemotron-nano-9b-v2 qwen3-30b-a3b qwen3-32b qwen3-8b qwen3-next-80b-a3b (__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "profile measure"' -l sequence-length -x -d 'Positions of a sequence'
complete -c octopipe -n '__octopipe_at "profile measure"' -l micro-batch-size -x -d 'Sequences of a micro-batch'
complete -c octopipe -n '__octopipe_at "profile measure"' -l device -x -a 'cpu cuda' -d 'cpu, cuda or cuda:N'
complete -c octopipe -n '__octopipe_at "profile measure"' -l dtype -x -a 'bf16 fp16 fp32' -d 'The number format of weights and activations'
complete -c octopipe -n '__octopipe_at "profile measure"' -l kernels -x -a 'fused eager' -d 'fused: RMS norms and gated activations keep what training kernels keep'
complete -c octopipe -n '__octopipe_at "profile measure"' -l repeats -x -d 'How often each pass is timed'
complete -c octopipe -n '__octopipe_at "profile measure"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'Name of the column'
complete -c octopipe -n '__octopipe_at "profile measure"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile measure"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile measure"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile measure" 1' -x -a 'bamba-9b deepseek-v3 gemma-3-27b glm-4.5 gpt-oss-120b gpt3-175b jamba-1.5-mini kimi-k2 llama-2-70b llama-2-7b llama-3.1-405b llama-3.1-70b llama-3.1-8b minimax-text-01 mixtral-8x7b nemotron-3-super-120b-a12b nemotron-h-8b nemotron-nano-9b-v2 qwen3-30b-a3b qwen3-32b qwen3-8b qwen3-next-80b-a3b (__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "profile import" 1' -a simpipe -d 'Make a profile from a file of the SimPipe simulator: a pattern of layer symbols, and ms for each symbol.'
complete -c octopipe -n '__octopipe_at "profile import" 1' -a trace -d 'Make a profile from traces of pipeline steps: the times of layers, from those of stages.'
complete -c octopipe -n '__octopipe_at "profile import" 1' -a megatron -d 'Make a profile from Megatron-LM\'s timers: the times of layers, from those of pipeline ranks.'
complete -c octopipe -n '__octopipe_at "profile import"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile import simpipe"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'What the times were taken on: a100, say'
complete -c octopipe -n '__octopipe_at "profile import simpipe"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile import simpipe"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile import simpipe"' -l note -x -d 'Kept in the profile\'s provenance'
complete -c octopipe -n '__octopipe_at "profile import simpipe"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile import simpipe" 1' -x -a '(__octopipe_files any)'
complete -c octopipe -n '__octopipe_at "profile import trace"' -l plan -x -a '(__octopipe_files plan)' -d 'The plan that ran'
complete -c octopipe -n '__octopipe_at "profile import trace"' -l profile -x -a '(__octopipe_files json)' -d 'The model\'s profile: sizes, rules and other columns are kept'
complete -c octopipe -n '__octopipe_at "profile import trace"' -l stage-layers -x -d 'Without a plan: how many of the profile\'s layers each stage has: 5,4,4,3'
complete -c octopipe -n '__octopipe_at "profile import trace"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'What the times were taken on'
complete -c octopipe -n '__octopipe_at "profile import trace"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile import trace"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile import trace"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile import trace" 1+' -x -a '(__octopipe_files any)'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -l plan -x -a '(__octopipe_files plan)' -d 'The plan that ran'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -l profile -x -a '(__octopipe_files json)' -d 'The model\'s profile: sizes, rules and other columns are kept'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -l stage-layers -x -d 'Without a plan: how many of the profile\'s layers each stage has: 5,4,4,3'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -s m -l num-microbatches -x -d 'Micro-batches of an iteration'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'What the times were taken on'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile import megatron"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile import megatron" 1' -x -a '(__octopipe_files any)'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -l measured -x -a '(__octopipe_files any)' -d 'Measured times: a profile, or kind -> ms of a layer: {"mlp":...'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -l scale -x -a 'kind pass' -d 'kind: one factor a kind, its proportions of F, I and W stay'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -l hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'The column that is scaled, where there are several'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -l measured-hardware -x -a 'a100-40gb a100-80gb b200 h100-sxm h200-sxm l40s mi300x' -d 'The measured profile\'s column, where it has several'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile calibrate"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile calibrate" 1' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "profile merge"' -s o -l output -x -a '(__octopipe_files json)' -d 'The profile file'
complete -c octopipe -n '__octopipe_at "profile merge"' -l name -x -d 'Name of the profile'
complete -c octopipe -n '__octopipe_at "profile merge"' -l take-larger -d 'Where activations or workspace differ (kernels do), the larger size counts'
complete -c octopipe -n '__octopipe_at "profile merge"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "profile merge" 1+' -x -a '(__octopipe_files json)'
complete -c octopipe -n '__octopipe_at "schema"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "schema" 1' -x -a 'profile cluster plan hardware diff'
complete -c octopipe -n '__octopipe_at "completion"' -s h -l help -d 'Show this message and exit'
complete -c octopipe -n '__octopipe_at "completion" 1' -x -a 'bash zsh fish'
