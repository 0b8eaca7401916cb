#!/bin/sh
# limits.sh - threads that cannot be made and address space that runs out: one line, an exit code, and no hang.
set -u
. "$(dirname "$0")/lib.sh"

# ends TEXT COMMAND...: with 1 and one line, which holds TEXT.
ends ()
{
  text=$1
  shift
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  set -- "$(echo "$*" | cut -c 1-150)"
  [ $code -eq 1 ] || set -- "$@" "exit code $code"
  [ "$(wc -l <"$work/stderr")" -eq 1 ] && grep -qF -e "$text" "$work/stderr" || set -- "$@" "not one line with '$text':"
  [ $# -eq 1 ] || set -- "$@" "$(cat "$work/stderr")"
  result "$@"
}

# without_threads COMMAND...: no address space holds the stack that a thread would get.
without_threads ()
{
  (ulimit -c 0; ulimit -s 1000000000000 && exec timeout 60 "$@")
}

if ! without_threads true 2>/dev/null; then
  echo "1..0 # SKIP the system does not let stacks grow"
  exit 0
fi

costs=f=1ms,b=1ms,w=1ms
printf '[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 4..64 x2\ncosts = %s\n' $costs >spec.ini
pipesim predict --schedule 1f1b -p 2 -m 2 --costs $costs -o timeline.json >/dev/null
none='threads: Error creating thread: '
ends "--jobs: 3 $none" without_threads pipesim sweep spec.ini --db results.db --jobs 3
ends "--jobs: 3 $none" without_threads pipesim predict --schedule 1f1b -p 2 -m 2 --costs $costs --samples 2000 --jitter 0.1 --jobs 3
ends "--jobs: 3 $none" \
  without_threads pipesim plan --model llama-3-70b --cluster h100-80gb --gpus 64 --global-batch 64 --jobs 3
ends "2 devices: Error creating thread: " without_threads pipesim exec --schedule 1f1b -p 2 -m 2 --device null --steps 1
ends "sentinel: 1 devices: Error creating thread: " without_threads pipesim calib run --db costs.db --profile x --model tiny-gpt -p 2
if command -v gnuplot >/dev/null; then
  if without_threads pipesim plot timeline timeline.json -o timeline.svg 2>"$work/stderr" && [ -s timeline.svg ]; then
    result "gnuplot needs no thread of ours"
  else
    result "gnuplot needs no thread of ours" "$(cat "$work/stderr")"
  fi
fi

# within KIB COMMAND...
within ()
{
  (ulimit -c 0; ulimit -v "$1" && shift && exec timeout 60 "$@")
}

if within 50000 pipesim --version >/dev/null 2>&1; then
  run='pipesim exec --schedule 1f1b -p 8 -m 2 --steps 1'
  ends "8 devices: Error creating thread: " within 50000 $run --device null
  ends "pipesim predict: failed to allocate" within 50000 pipesim predict --schedule gpipe -p 512 -m 2000 --costs $costs
  ends "cpu device: no address space for OpenBLAS (see ulimit -v): each device needs 256 MiB" \
    within 500000 $run --device cpu --model tiny-gpt
else
  skip "address space" "a sanitizer needs more"
fi
finish
