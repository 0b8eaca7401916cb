#!/bin/sh
# tables.sh - tables fit the window, or 120 characters where there is none; --columns and --wide choose what they show.
set -u
. "$(dirname "$0")/lib.sh"

# widest COMMAND...: the characters of the longest line from the table's heading on.
widest ()
{
  "$@" 2>/dev/null | awk '/^(in every row: |rank |schedule |placement |p |from |name |profile |what |figure )/ { inside = 1 }
    inside && length > most { most = length } END { print most + 0 }'
}

# fits WIDTH COMMAND...: the table is no wider, and it is there.
fits ()
{
  width=$1
  shift
  found=$(widest "$@")
  if [ "$found" -gt 20 ] && [ "$found" -le "$width" ]; then
    result "$width: $*"
  else
    result "$width: $*" "the longest line of the table has $found characters"
  fi
}

# shows HEADING COMMAND...: the line after the sentences is this heading.
shows ()
{
  heading=$1
  shift
  "$@" >"$work/stdout" 2>"$work/stderr"
  if grep -qx "$heading" "$work/stdout"; then result "$*"; else result "$*" "$(cat "$work/stdout" "$work/stderr")"; fi
}

costs=f=1ms,b=1ms,w=1ms,c=100us,act=2MiB
printf '[sweep]\nschedule = 1f1b, zb-h1, zb-v\np = 2, 4\nm = 4, 8\nmemory_limit = none\ncosts = %s\nbandwidth-factor = 0.1, 1\n' $costs >spec.ini
pipesim sweep spec.ini --db results.db 2>/dev/null
pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --steps 2 --trace run.json >/dev/null
pipesim calib import --db costs.db --profile here --model tiny-gpt run.json 2>/dev/null
plan="pipesim plan --model tiny-gpt --cluster cpu-cores --global-batch 32 -s 1f1b,dualpipe,zb-v --top 4"

# page WIDTH TEXT COMMAND...: no line is longer, and one of them holds TEXT.
page ()
{
  width=$1
  text=$2
  shift 2
  "$@" >"$work/stdout" 2>"$work/stderr"
  found=$(awk 'length > most { most = length } END { print most + 0 }' "$work/stdout")
  set -- "$width: $*"
  [ "$found" -le "$width" ] || set -- "$@" "the longest line has $found characters"
  grep -qF -e "$text" "$work/stdout" || set -- "$@" "no '$text' in:" "$(cat "$work/stdout" "$work/stderr")"
  result "$@"
}

for factor in bandwidth network latency; do # a factor of 1 is a value like others
  printf '[sweep]\nschedule = 1f1b\np = 2\nm = 4\nmodel = gpt-1.5b\ncluster = a100-80gb\n%s-factor = 0.5, 1\n' $factor >factor.ini
  pipesim sweep factor.ini --db $factor.db 2>/dev/null
  page 500 1f1b pipesim best $factor.db --where $factor-factor=1
done

for width in 80 120 200; do
  export COLUMNS=$width
  fits $width pipesim predict -s all -p 4 -m 8 --costs $costs
  fits $width pipesim predict -s 1f1b,zb-v -p 4 -m 8 --model gpt-1.5b --cluster a100-80gb
  fits $width pipesim search -p 2 -m 4 --costs $costs --moves 1000
  fits $width $plan
  for question in best pareto sensitivity; do
    fits $width pipesim $question results.db
  done
  fits $width pipesim schedule list
  fits $width pipesim models
  fits $width pipesim clusters
  fits $width pipesim calib list --db costs.db
  fits $width pipesim calib show --db costs.db
done
export COLUMNS=100
model='-p 4 -m 8 --model gpt-1.5b --cluster a100-80gb'
pipesim predict -s 1f1b $model -o first.json >/dev/null
pipesim predict -s zb-h1 $model -o second.json >/dev/null
page 100 'Et*6|t*6|t*6|t*4L' pipesim search $model --moves 1000
page 100 'critical circle' pipesim predict -s zb-h1 -p 8 -m 4 --costs f=3ms,b=2ms,w=2ms,c=500us,o=1ms --sync bypass --explain
page 100 'further' pipesim predict -s 1f1b,pipedream $model --memory
page 100 'deviation =' pipesim compare first.json second.json
page 100 'predicted from medians' pipesim diagnose first.json --time-limit 100ms
page 100 'frameworks' pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64 --top 3 --wide
unset COLUMNS
fits 120 pipesim schedule list
fits 120 pipesim models
fits 120 pipesim clusters
fits 120 pipesim calib list --db costs.db
fits 120 pipesim calib show --db costs.db
fits 120 pipesim predict -s all -p 4 -m 8 --costs $costs

predict="pipesim predict -s 1f1b -p 4 -m 8 --costs $costs"
shows 'schedule  p  m  v  iteration  bubble of iteration  lower bound  peak memory  fits' $predict
shows 'schedule  p  m  v  makespan  iteration  bubble of iteration  bubble of span  lower bound  peak memory  fits' $predict --wide
shows 'peak memory  m  max_span_ns' $predict --columns 'peak memory,microbatches' --columns max-span_ns
shows 'm  iteration  schedule  lower bound' pipesim best results.db --columns m,iteration --columns schedule,lower-bound --per p
shows 'schedule_*' pipesim best results.db --csv --columns schedule
shows 'name  *source' pipesim clusters --columns name,about
shows 'name  constraints' sh -c 'pipesim schedule list --columns name,constraints | sed "s/  */  /g; s/ *$//"'
shows ' *3  *megatron, torchtitan, deepspeed, pytorch, colossalai *' \
  pipesim plan --model tiny-gpt --cluster cpu-cores --gpus 2 --global-batch 32 -s 1f1b --zero 3 --columns zero,frameworks
refuse 2 "--columns: 'colour' is no column; there are schedule, p, m, v, makespan, iteration," $predict --columns colour
refuse 2 "--columns: is for printed tables; the JSON holds all columns" $predict --columns p --json
refuse 2 "--wide: is for printed tables" pipesim clusters --wide --json
refuse 2 "--columns: 'colour' is no column" pipesim search -p 64 -m 64 --costs $costs --columns colour
refuse 2 "--columns: 'colour' is no column" $plan --columns colour
refuse 2 "--columns: 'colour' is no column" pipesim pareto results.db --columns colour
refuse 2 "--columns: 'schedule' is no column; there are" pipesim sensitivity results.db --columns schedule
finish
