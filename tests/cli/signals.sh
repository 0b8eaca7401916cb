#!/bin/sh
# signals.sh - a search that is interrupted prints and writes the best found so far.
set -u
. "$(dirname "$0")/lib.sh"

# Whether a process searches by now, in two threads: before that a signal just ends it.
searches ()
{
  grep -q '^Threads:[[:space:]]*[2-9]' "/proc/$1/status" 2>/dev/null
}

interrupted ()
{
  pipesim search -p 8 -m 24 --costs f=6ms,b=4ms,w=5ms,c=1ms,act=2MiB,wact=1MiB --memory-limit 9MiB --time-limit 500s --jobs 2 \
    -o best.json >out.txt 2>err.txt &
  pid=$!
  until searches $pid || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
  kill -TERM $pid
  wait $pid
  code=$?
  set --
  [ $code -eq 0 ] || set -- "$@" "exit code $code"
  [ "$(grep -c '^stopped by SIGTERM' err.txt)" -eq 1 ] || set -- "$@" "on stderr: $(cat err.txt)"
  grep -q '^loop' out.txt && grep -q '^V' out.txt && grep -q '^bidirectional' out.txt || set -- "$@" "a row is missing: $(cat out.txt)"
  pipesim schedule validate best.json >/dev/null || set -- "$@" "best.json is no schedule"
  result "a search ended by SIGTERM has written the best so far" "$@"
}

if [ -r /proc/self/status ]; then interrupted; else skip "interrupting a search" "no /proc"; fi
finish
