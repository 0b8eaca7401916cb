#!/bin/sh
# kill-sweep.sh - kills `pipesim sweep` at random moments. The database must open each time, be whole and hold no row twice,
# nothing that was stored may get lost, and a last run must complete it to what a run that nobody killed makes.
# PIPESIM_KILLS: how often (5). PIPESIM_SETTINGS: how many settings, in hundreds (200).
set -eu

pipesim="${PIPESIM_BINDIR:?}/pipesim"
kills="${PIPESIM_KILLS:-5}"
hundreds="${PIPESIM_SETTINGS:-200}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/spec.ini" <<END
[sweep]
schedule = gpipe, 1f1b, zb-h1, zb-v, dualpipe
devices = 8
microbatches = 12, 16
costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB
bandwidth-factor = 0.01..$(awk -v n="$hundreds" 'BEGIN { print n / 10 }') step 0.01
END
expected=$((hundreds * 100))

fail ()
{
  echo "kill-sweep: $*" >&2
  cat "$folder/log" >&2
  exit 1
}

query ()
{
  sqlite3 "$folder/results.db" "$1"
}

# Rows that are there: all of them once, under their own number.
count ()
{
  [ -s "$folder/results.db" ] && [ "$(query "SELECT count (*) FROM sqlite_schema WHERE name = 'prediction'")" = 1 ] || { echo 0; return; }
  query 'SELECT count (*) FROM (SELECT point, digest FROM prediction UNION ALL SELECT point, digest FROM skipped)'
}

check ()
{
  [ -s "$folder/results.db" ] || return 0
  verdict=$(query 'PRAGMA integrity_check')
  [ "$verdict" = ok ] || fail "after kill $kill: $verdict"
  [ "$(count)" = 0 ] && return 0
  twice=$(query 'SELECT count (*) - count (DISTINCT point) + count (*) - count (DISTINCT digest)
    FROM (SELECT point, digest FROM prediction UNION ALL SELECT point, digest FROM skipped)')
  [ "$twice" = 0 ] || fail "after kill $kill: $twice rows are there twice"
}

command -v sqlite3 >/dev/null || { echo "1..0 # SKIP there is no sqlite3"; exit 77; }

start=$(date +%s%N)
"$pipesim" sweep "$folder/spec.ini" --db "$folder/whole.db" --jobs 2 2>"$folder/log" || fail "a run that nobody killed failed"
took=$((($(date +%s%N) - start) / 1000))

before=0
midway=0
kill=0
rounds=0
: >"$folder/results.db"
for part in $(awk -v n="$kills" 'BEGIN { srand (); for (i = 0; i < n; i++) printf "%.4f ", rand () }'); do
  kill=$((kill + 1))
  "$pipesim" sweep "$folder/spec.ini" --db "$folder/results.db" --jobs 2 --resume 2>"$folder/log" &
  process=$!
  # Somewhere within what one run takes, so that several are needed.
  sleep "$(awk -v took="$took" -v part="$part" 'BEGIN { printf "%.4f", took / 1e6 * part * 0.7 }')"
  kill -KILL "$process" 2>/dev/null || true
  code=0
  wait "$process" 2>/dev/null || code=$?
  [ "$code" = 137 ] || [ "$code" = 0 ] || fail "run $kill ended with $code"
  check
  now=$(count)
  [ "$now" -ge "$before" ] || fail "kill $kill: $before rows before, $now after"
  [ "$now" -gt 0 ] && [ "$now" -lt "$expected" ] && midway=$((midway + 1))
  before=$now
  if [ "$now" = "$expected" ]; then
    rounds=$((rounds + 1))
    rm -f "$folder"/results.db*
    before=0
  fi
done

"$pipesim" sweep "$folder/spec.ini" --db "$folder/results.db" --jobs 2 --resume 2>"$folder/log" || fail "the last run failed"
kill=last
check
[ "$(count)" = "$expected" ] || fail "after the last run: $(count) rows, expected $expected"
for table in prediction skipped; do
  sqlite3 "$folder/whole.db" "SELECT * FROM $table ORDER BY point" >"$folder/whole"
  query "SELECT * FROM $table ORDER BY point" >"$folder/mended"
  cmp -s "$folder/whole" "$folder/mended" || fail "$table differs from that of a run that nobody killed"
done
echo "killed $kills times, $midway of them with some rows stored, $rounds times complete before; $expected rows in the end, as in one run"
