#!/bin/sh
# processes-calib.sh - calibrations by several processes that a real mpirun starts, and shards of a sweep in one database.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/cli/lib.sh"
. "$tests/cli/mpi-lib.sh"

# Calibration: ops in the first process, transfers between it and the second.
calib="--db costs.db $few"
fine "calibration in two processes" 'stage shape' 2 pipesim calib run $calib --profile two --transport mpi
if [ "$(grep -c '^transfer ' "$work/stdout")" -ge 8 ] && grep -q '^all-reduce ' "$work/stdout"; then result "all sizes"; else result "all sizes" "$(cat "$work/stdout")"; fi
fine "again, as another calibration" '' 2 pipesim calib run $calib --profile two --transport mpi
if grep -q 'they are taken anew, as another calibration' "$work/stderr"; then result "which it says"; else result "which it says" "$(cat "$work/stderr")"; fi
if pipesim calib list --db costs.db | grep -q 'mpi, 2 processes'; then
  result "the profile says so"
else
  result "the profile says so" "$(pipesim calib list --db costs.db)"
fi
if pipesim calib export --db costs.db --profile two -o two.json && grep -q '"libraries": .*\(MPI\|MPICH\).*SQLite' two.json; then
  result "and with which MPI"
else
  result "and with which MPI" "$(grep libraries two.json)"
fi
# The peak of a spread optimizer state is the predicted one, byte by byte.
fine "calibration of a model of bytes" '' 2 pipesim calib run --db costs.db --model bytes.ini -p 2 -v 1 --max-samples 3 --time-limit 50ms \
  --profile bytes --transport mpi
for zero in 0 1; do
  fine "a run with --zero $zero is predicted" '"predicted_iteration_ns"' 4 pipesim exec --schedule 1f1b -p 2 -m 4 $mpi --replicas 2 --zero $zero \
    --db costs.db --profile bytes --json --predicted predicted.json --trace measured.json
  pipesim compare predicted.json measured.json --json >compared.json 2>"$work/stderr"
  sed -n 's/.*"\(predicted\|measured\)_peak_memory_bytes": \([0-9]*\).*/\2/p' compared.json >"peaks-$zero"
  if [ "$(wc -l <"peaks-$zero")" = 2 ] && [ "$(sort -u "peaks-$zero" | wc -l)" = 1 ]; then
    result "and its peak of memory is exact"
  else
    result "and its peak of memory is exact" "$(cat "peaks-$zero" compared.json "$work/stderr")"
  fi
done
if [ "$(head -1 peaks-1)" -lt "$(head -1 peaks-0)" ]; then result "lower with shares"; else result "lower with shares" "$(head peaks-?)"; fi
one_line "a calibration's profile stays what it is" 1 '.*mpi.*' 1 pipesim calib run $calib --profile two --transport mpi
fine "calibration in one process" '' 1 pipesim calib run $calib --profile one --transport mpi
fine "calibration in three" 'stage shape' 3 pipesim calib run $calib --profile three --transport mpi
fine "shared layers in slices" '' 2 pipesim calib run $calib --profile slices --transport mpi --tensor 2 --slices 2
one_line "calibration within one process" 2 'rank [01]: transport threads: stays inside one process, and these are 2' \
  2 pipesim calib run $calib --profile four
one_line "one rank calibrates another model" 1 'rank 1: no-such.ini: .*' 2 sh odd.sh 1 '' '--model no-such.ini' \
  pipesim calib run $calib --profile five --transport mpi

# A sweep: every process takes its shard, all write one database. Sanitizers look for wrong memory, for which a fifth does.
step=0.01
[ "${PIPESIM_CASES:-1}" = 1 ] || step=0.05
cat >spec.ini <<TEXT
[sweep]
schedule = gpipe, 1f1b, zb-h1, zb-v, dualpipe
devices = 8
microbatches = 16, 32
costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB
bandwidth-factor = $step..8 step $step
TEXT
rows ()
{
  sqlite3 "$1" 'SELECT * FROM prediction ORDER BY point'
}

# same_rows NAME: of alone.db and shared.db.
same_rows ()
{
  rows alone.db >"$work/alone"
  rows shared.db >"$work/shared"
  if cmp -s "$work/alone" "$work/shared"; then
    result "$1"
  else
    result "$1" "$(wc -l <"$work/shared") rows instead of $(wc -l <"$work/alone")" "$(cat "$work/stderr")"
  fi
}
pipesim sweep spec.ini --db alone.db 2>"$work/stderr"
for n in 2 4; do
  rm -f shared.db*
  for i in $(seq 0 $((n - 1))); do pipesim sweep spec.ini --db shared.db --shard "$i/$n" --jobs 1 2>>"$work/stderr" & done
  wait
  same_rows "a sweep by $n processes gives what one gives"
done
finish
