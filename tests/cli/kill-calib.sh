#!/bin/sh
# kill-calib.sh - kills `pipesim-calib run` at random moments. The database must open each time, be whole, keep every finished
# measurement, and a last run must complete it with every measurement once.
# PIPESIM_KILLS: how often (10).
set -eu

calib="${PIPESIM_BINDIR:?}/pipesim-calib"
kills="${PIPESIM_KILLS:-10}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/model.ini" <<'END'
[model]
layers = 4
hidden = 32
heads = 4
sequence = 32
vocabulary = 64
microbatch_size = 2
precision = fp32
mlp = gelu
flash_attention = false
END

# Two devices, 1 and 2 chunks: 5 stage shapes, 5 kinds of op and 4 that are warm, too, busy and alone; boundary 8 KiB: transfers of 8 B to 32 KiB,
# and of 8 B, 2 KiB and 8 KiB both ways at once; the same and a stage's gradients added up by both; three host times.
expected=$((5 * (5 + 4) * 2 + 13 + 3 + 4 + 3))

fail () {
  echo "kill-calib: $*" >&2
  cat "$folder/log" >&2
  exit 1
}

start () {
  "$calib" run --db "$db" --profile p --model "$folder/model.ini" -p 2 --max-samples 250 --time-limit 400ms \
    --within 0.01% "$@" >/dev/null 2>"$folder/log" &
  process=$!
}

finish () {
  start "$@"
  wait "$process" || fail "a run that nobody killed failed"
}

count () {
  [ -s "$db" ] || { echo 0; return; }
  "$calib" list --db "$db" --json | sed -n 's/.*"measurements" *: *\([0-9]*\).*/\1/p' | grep . || echo 0
}

check () {
  if command -v sqlite3 >/dev/null && [ -s "$db" ]; then
    verdict=$(sqlite3 "$db" 'PRAGMA integrity_check')
    [ "$verdict" = ok ] || fail "after kill $kill: $verdict"
  fi
}

db="$folder/costs-0.db"
before=0
lost=0
finished=0
midway=0
kill=0
for delay in $(awk -v n="$kills" 'BEGIN { srand (1); for (i = 0; i < n; i++) printf "%.3f ", 0.005 + 0.5 * rand () * rand () }'); do
  kill=$((kill + 1))
  start
  sleep "$delay"
  kill -KILL "$process" 2>/dev/null || true
  code=0
  wait "$process" 2>/dev/null || code=$?
  check
  # A kill before the tables exist leaves nothing to count.
  now=$(count 2>>"$folder/log") || now=0
  # What a run says that it has measured was stored before it said so. What it measures again replaces what is there.
  told=$(grep '(n = ' "$folder/log" | grep -vc ' again (n = ' || true)
  [ "$now" -ge $((before + told)) ] || fail "kill $kill: $before measurements before, $told more announced, $now after"
  [ "$now" -gt 0 ] && [ "$now" -lt "$expected" ] && midway=$((midway + 1))
  before=$now
  if [ "$code" = 0 ]; then
    [ "$now" = "$expected" ] || fail "complete run: $now measurements, expected $expected"
    finished=$((finished + 1))
    db="$folder/costs-$finished.db"
    before=0
  elif [ "$code" != 137 ]; then
    fail "run $kill ended with $code"
  else
    lost=$((lost + 1))
  fi
done

finish
[ "$(count)" = "$expected" ] || fail "after the last run: $(count) measurements, expected $expected"
check
finish --again 0
[ "$(count)" = "$expected
$expected" ] || fail "the run after the last made no second calibration of as many"
echo "killed $lost runs, $midway of them with some measurements done; $finished were faster; $expected in the end"
