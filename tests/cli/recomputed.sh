#!/bin/sh
# recomputed.sh - schedules of every family whose odd microbatches have an R, through commands and options: each answers, or refuses in a
# sentence.
set -u
. "$(dirname "$0")/lib.sh"

# answer COMMAND...: ends as commands do, with an answer or a refusal.
answer ()
{
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  echo "$*" >>"$work/asked"
  [ $code -ne 0 ] || echo "$*" >>"$work/answered"
  [ $code -le 3 ] && { [ $code -eq 0 ] || [ -s "$work/stderr" ]; } || failures="$failures
exit code $code: $*
$(tail -3 "$work/stderr")"
}

given='--costs f=3ms,b=2ms,w=2ms,bw=3900us,pair=4ms,c=500us,o=1ms,r=2ms,op=10us,post=20us,reduce=1ms,reduce2=1ms,act=2MiB,wact=1MiB,keep=256KiB,msg=64KiB,weights=1MiB,grad=256KiB,opt=512KiB,version=64KiB'
modelled='--model tiny-gpt --cluster h100-80gb'
step "list families" pipesim schedule list --json
for family in $(sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$work/stdout"); do
  pipesim schedule convert $family -p 4 -m 8 --to native -o order.json 2>"$work/stderr" || continue
  sed 's/"\([^"+]*+\)\{0,1\}BW\{0,1\}\([1357]\.[0-9/]*\)\(+[^"]*\)\{0,1\}"/"R\2", &/g' order.json >some.json
  failures=
  grep -q '"R[0-9]' some.json || failures="no R"
  step "$family recomputes some microbatches" pipesim predict -s some.json $given -o predicted.json
  while read -r options; do
    answer pipesim predict -s some.json $given $options
  done <<TEXT
--comm rank --explain --memory
--comm pair --comm-order planned --sync bypass
--comm direction --eager 1MiB --blocking
--sync bypass --explain
--ready-order 3 --comm rank --explain
--overlap-slowdown 1.2 --samples 10 --jitter 0.1 --jobs 1
--samples 10 --jitter 0.1 --sync bypass --jobs 1
--zero 2 --replicas 2 --memory
--zero 3 --replicas 2 --memory
TEXT
  answer pipesim predict -s some.json $modelled --share-links --memory
  answer pipesim predict -s some.json $modelled --share-links --comm rank --sync bypass
  answer pipesim schedule show some.json $given
  for format in chrome-trace torch-comms colossalai; do
    answer pipesim schedule convert some.json --to $format $given -o - --comm rank --comm-order planned
  done
  answer pipesim diagnose predicted.json --time-limit 0
  answer pipesim predict -s some.json --costs-from predicted.json --explain
  if [ -z "$failures" ]; then result "$family under all options"; else result "$family under all options" "$failures"; fi
done
# PyTorch's and Colossal-AI's formats cannot hold an R.
never=$(sort -u "$work/asked" | grep -v -e '--to torch-comms' -e '--to colossalai' | grep -vxFf "$work/answered")
if [ -z "$never" ]; then result "all else answers for some family"; else result "all else answers for some family" "$never"; fi
finish
