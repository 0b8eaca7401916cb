#!/bin/sh
# progress.sh - long work says on a terminal how far it is, on a line that goes, and nothing of it in a pipe.
set -u
. "$(dirname "$0")/lib.sh"
export TERM=xterm
wiped=$(printf '\r\033[K')
costs=f=5ms,b=5ms,w=5ms,c=1ms,act=1MiB

# shown NAME PATTERN COMMAND...: the pattern (of grep -E) is on the terminal, the last line that was shown is wiped, there are at most six
# lines a second; with TERM=dumb and in a file there is none.
shown ()
{
  what=$1 pattern=$2
  shift 2
  rm -f results.db
  begin=$(date +%s)
  script -qec "$* >/dev/null" typescript >/dev/null 2>&1
  end=$(date +%s)
  tr '\r' '\n' <typescript >lines
  n=$(grep -cE "$pattern" lines)
  if [ "$n" -gt 0 ] && [ "$n" -le $((6 * (end - begin + 1))) ]; then result "$what: shown"; else result "$what: shown" "$n lines in $((end - begin)) s: $(cat -v typescript)"; fi
  case $(sed -n 2p typescript) in
    *"$wiped" | *"$wiped"[!' ']*) result "$what: wiped" ;;
    *) result "$what: wiped" "$(cat -v typescript)" ;;
  esac
  rm -f results.db
  TERM=dumb script -qec "$* >/dev/null" typescript >/dev/null 2>&1
  if grep -qE "$pattern" typescript; then result "$what: not on a dumb terminal" "$(cat -v typescript)"; else result "$what: not on a dumb terminal"; fi
  rm -f results.db
  "$@" >output 2>&1
  if grep -qE "$pattern" output || grep -qF "$wiped" output; then result "$what: not in a file" "$(cat -v output)"; else result "$what: not in a file"; fi
}

cat >spec.ini <<'EOF'
[sweep]
schedule = 1f1b, gpipe, zb-h1, interleaved
devices = 2, 4, 8
microbatches = 8..64
model = llama-3-8b
cluster = h100-80gb
tensor = 1, 2, 4, 8
replicas = 1, 2, 4
EOF
shown search 'best [0-9.]+ m?s, bound [0-9.]+ m?s, gap .* left' pipesim search -p 8 -m 24 --costs $costs -v 2 --memory-limit 9MiB -t 2s --jobs 1
shown plan '^.{0,3}[0-9]+ of [0-9]+ layouts, llama-3-70b on 64 GPUs of h100-80gb' \
  pipesim plan --model llama-3-70b --cluster h100-80gb -g 64 --global-batch 512 -s 1f1b,interleaved,zb-v -j 1
shown sweep '[0-9]+ of [0-9]+ settings, ' pipesim sweep spec.ini --db results.db -j 1
shown exec '[0-9]+ of 20 steps, the last one took .* left' \
  pipesim exec -s 1f1b -p 2 -m 4 --costs $costs --device paced --transport threads --steps 20 --json
finish
