#!/bin/sh
# processes-calib.sh - calibrations and sweeps by several processes that a real mpirun starts.
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

# A sweep: every process takes its share, all write one database. Sanitizers look for wrong memory, for which a fifth does.
step=0.01 long_step=0.002 share=20 most=40000
[ "${PIPESIM_CASES:-1}" = 1 ] || { step=0.05 long_step=0.008 share=4 most=10000; }
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
  fine "a sweep by $n processes" '' $n pipesim sweep spec.ini --db shared.db
  same_rows "gives what one gives ($n)"
done
if [ "$(grep -c "^part [1-4] of 4: ${share}00 settings" "$work/stderr")" = 4 ]; then
  result "each has its share"
else
  result "each has its share" "$(cat "$work/stderr")"
fi
one_line "no second sweep over the first" 2 'shared.db: holds [0-9]+ settings already; --resume goes on with the others' 1 \
  pipesim sweep spec.ini --db shared.db
fine "one database each" '' 2 pipesim sweep spec.ini --db 'part{shard}.db'
rm -f shared.db*
pipesim sweep merge shared.db part0.db part1.db 2>"$work/stderr"
same_rows "which merge to the same"
refuse 2 "processes on several hosts can't write one database" \
  env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 pipesim sweep spec.ini --db new.db
refuse 2 "processes on several hosts can't write one database" \
  env SLURM_PROCID=4 SLURM_STEP_NUM_TASKS=5 'SLURM_STEP_TASKS_PER_NODE=2(x2),1' pipesim sweep spec.ini --db new.db
env -u OMPI_COMM_WORLD_LOCAL_SIZE PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 pipesim sweep spec.ini --db mpich.db 2>"$work/stderr"
if grep -q '^part 2 of 2: ' "$work/stderr"; then result "MPICH's processes, too"; else result "MPICH's processes, too" "$(cat "$work/stderr")"; fi

# Killed where it is: --resume completes it.
sed "s/$step/$long_step/g" spec.ini >long.ini
rm -f shared.db* "$work/pids"
timeout -k 5 120 mpirun -n 3 sh -c 'echo $$ >>"$0"; exec "$@"' "$work/pids" pipesim sweep long.ini --db shared.db >/dev/null 2>&1 </dev/null &
job=$!
stored=0
while [ "${stored:-0}" -lt 2000 ] && kill -0 $job 2>/dev/null; do
  sleep 0.1
  stored=$(sqlite3 -cmd '.timeout 5000' shared.db 'SELECT count (*) FROM prediction' 2>/dev/null)
done
kill -9 "$(head -1 "$work/pids")"
wait $job
code=$?
stored=$(sqlite3 -cmd '.timeout 5000' shared.db 'SELECT count (*) FROM prediction')
if [ $code -ne 0 ] && [ "$stored" -gt 0 ] && [ "$stored" -lt $most ]; then
  result "a killed sweep ends"
else
  result "a killed sweep ends" "exit code $code, $stored settings stored"
fi
fine "and goes on" '' 3 pipesim sweep long.ini --db shared.db --resume
rm -f alone.db*
pipesim sweep long.ini --db alone.db 2>/dev/null
same_rows "to what one gives that nobody killed"
finish
