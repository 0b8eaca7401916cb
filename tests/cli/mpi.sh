#!/bin/sh
# mpi.sh - runs over MPI, in processes that a real mpirun starts, and in one alone. Times decide nothing here.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/cli/lib.sh"

# What mpirun wants where the tests run as root, or on fewer cores than there are processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
# What MPI's components keep to the end can't be told from what is ours: they are unloaded before anybody looks for leaks.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0

write_model ()
{
  cat >"$1" <<TEXT
[model]
layers = 4
hidden = $2
heads = 2
sequence = $3
feed_forward = 32
vocabulary = 11
microbatch_size = 1
precision = fp32
mlp = gelu
flash_attention = false
TEXT
}
write_model small.ini 16 8   # 512 B between stages: such messages travel in letters
write_model large.ini 32 64  # 8 KiB: such go on their own
single='--schedule 1f1b -p 4 -m 8 --device cpu --transport mpi --steps 3 --check --json'
paced='--schedule 1f1b -p 4 -m 8 --device paced --transport mpi --costs f=1ms,b=1ms,w=1ms,c=200us,act=1MiB'

# The module says itself why it can't be used.
if ! pipesim exec $single --model small.ini >"$work/stdout" 2>"$work/stderr" && grep -q 'there is no pipesim-mpi.so' "$work/stderr"; then
  skip "the mpi transport" "this build has no MPI"
  finish
fi
if ! command -v mpirun >/dev/null; then
  skip "the mpi transport in several processes" "there is no mpirun"
  finish
fi

# launch RANKS COMMAND...: its exit code becomes $code.
launch ()
{
  ranks=$1
  shift
  timeout -k 5 120 mpirun -n "$ranks" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
}

# fine NAME TEXT RANKS COMMAND...: ends with 0, prints TEXT.
fine ()
{
  name=$1
  text=$2
  shift 2
  launch "$@"
  set -- "$name"
  [ $code -eq 0 ] || set -- "$@" "exit code $code" "$(cat "$work/stderr")"
  [ -z "$text" ] || grep -qF -e "$text" "$work/stdout" || set -- "$@" "no '$text' in:" "$(head -20 "$work/stdout")"
  result "$@"
}

# one_line NAME PATTERN RANKS COMMAND...: fails, and every process that says anything says the same line. mpirun, which ends
# the others as soon as one has failed, adds lines of its own.
one_line ()
{
  name=$1
  pattern=$2
  shift 2
  launch "$@"
  check_line "$name" "$pattern" ''
}

# check_line NAME PATTERN PATTERN-OF-MPIRUN: of $code and what was said.
check_line ()
{
  grep -E '^(pipesim exec|pipesim calib|pipesim sweep|mpi-ranks): ' "$work/stderr" | sort -u >"$work/lines"
  set -- "$1" "$2" "$3"
  problems=
  [ $code -ne 0 ] && [ $code -lt 124 ] || [ $code -eq 137 ] || problems="exit code $code"
  if [ -s "$work/lines" ]; then
    [ "$(wc -l <"$work/lines")" -eq 1 ] || problems="$problems; more than one line"
    grep -qE -e "^[a-z -]+: $2\$" "$work/lines" || problems="$problems; no '$2'"
  elif [ -z "$3" ] || ! grep -qE -e "$3" "$work/stderr"; then
    problems="$problems; nobody says '$2'"
  fi
  [ ! -s "$work/stdout" ] || problems="$problems; something was printed"
  if [ -z "$problems" ]; then result "$1"; else result "$1" "$problems" "$(cat "$work/stderr")"; fi
}

if pipesim exec $single --model large.ini >"$work/stdout" 2>"$work/stderr" && grep -q bit-equal "$work/stdout"; then
  result "one process alone sends to itself"
else
  result "one process alone sends to itself" "$(cat "$work/stdout" "$work/stderr")"
fi
fine "four ranks compute what one does" '"check": "bit-equal"' 4 pipesim exec $single --model large.ini
fine "split backwards, short messages" '"check": "bit-equal"' 4 pipesim exec --schedule zb-h1 -p 4 -m 8 --device cpu \
  --transport mpi --steps 3 --check --json --model small.ini
fine "two ranks with two devices each" '"check": "bit-equal"' 2 pipesim exec $single --model large.ini
fine "two stages a rank" '"check": "bit-equal"' 2 pipesim exec --schedule zb-v -p 2 -m 4 --device cpu --transport mpi --steps 3 \
  --check --json --model large.ini
fine "two copies of two ranks" '"check": "equal-within"' 4 pipesim exec --schedule 1f1b -p 2 -m 4 --device cpu --transport mpi \
  --steps 3 --check --json --model large.ini
fine "paced devices" 'interleaved on 4 devices (paced, mpi)' 2 pipesim exec --schedule interleaved -p 4 -m 8 --device paced \
  --transport mpi --costs f=1ms,b=1ms,w=1ms,c=200us,act=1MiB --steps 2 --trace measured.json --predicted predicted.json
if pipesim compare predicted.json measured.json >"$work/stdout" 2>&1 && grep -q 'transfer  112' "$work/stdout"; then
  result "the timeline has the ops and transfers of all ranks"
else
  result "the timeline has the ops and transfers of all ranks" "$(cat "$work/stdout")"
fi
fine "devices that do nothing" 'gpipe on 3 devices (null, mpi)' 3 pipesim exec --schedule gpipe -p 3 -m 16 --device null --transport mpi

for scene in storm-short storm-long; do
  fine "$scene: everybody to everybody in any order" '' 3 "$PIPESIM_BINDIR/mpi-ranks" $scene 3
done
fine "sums over two replicas of two devices" '' 4 "$PIPESIM_BINDIR/mpi-ranks" sum 2
fine "sums over three replicas" '' 3 "$PIPESIM_BINDIR/mpi-ranks" sum 1
one_line "a lost message is named" 'rank 2: device 2: waited 4 s for F7.3 from device 0' 3 "$PIPESIM_BINDIR/mpi-ranks" lost 3
one_line "one gives up, all end" 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" strike 3

one_line "one replica gives up, all end" 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" sum-strike 1

one_line "not enough ranks" 'rank [0-2]: 3 processes: as many as the schedule has devices, 4, a multiple of that or a divisor of it are needed' \
  3 pipesim exec $paced
one_line "what all lack" 'rank [0-3]: mpi transport: there is no pipesim-mpi.so in /nowhere: .*' \
  4 env PIPESIM_MODULE_DIR=/nowhere pipesim exec $paced

# Started by something that is not MPI's: each process believes to be alone.
port=$((20000 + $$ % 10000))
RANK=1 WORLD_SIZE=2 MASTER_PORT=$port pipesim exec $single --model small.ini >/dev/null 2>"$work/other" &
RANK=0 WORLD_SIZE=2 MASTER_PORT=$port pipesim exec $single --model small.ini >"$work/stdout" 2>"$work/stderr"
code=$?
wait
cat "$work/other" >>"$work/stderr"
check_line "processes that MPI has not started" \
  'rank [01]: mpi transport: MPI knows 1 of the 2 processes; start them with mpirun, or srun with --mpi' ''

# kill_one RANK: while all are at work, which they are when they have their threads.
kill_one ()
{
  dead=$1
  : >"$work/pids"
  # The shell's id stays when it becomes the program.
  timeout -k 5 120 mpirun -n 4 sh -c 'echo "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $$" >>"$0"; exec "$@"' "$work/pids" \
    pipesim-exec --schedule 1f1b -p 4 -m 8 --device paced --transport mpi --costs f=20ms,b=20ms,w=20ms --steps 1000000 \
    >"$work/stdout" 2>"$work/stderr" </dev/null &
  job=$!
  while [ "$(wc -l <"$work/pids")" -lt 4 ] && kill -0 $job 2>/dev/null; do sleep 0.05; done
  victim=$(awk -v rank="$dead" '$1 == rank { print $2 }' "$work/pids")
  while [ -d "/proc/$victim/task" ] && ! grep -qx device "/proc/$victim"/task/*/comm 2>/dev/null; do sleep 0.05; done
  sleep 0.3
  kill -9 "$victim"
  wait $job
  code=$?
  check_line "rank $dead is killed" "rank $dead: has ended without a word" "process rank $dead with PID .* exited on signal 9|BAD TERMINATION"
  # mpirun ends before those that it has told to end.
  for i in $(seq 200); do
    left=$(awk '{ print $2 }' "$work/pids" | while read -r id; do [ ! -d "/proc/$id" ] || echo "$id"; done)
    [ -n "$left" ] || break
    sleep 0.1
  done
  if [ -z "$left" ]; then result "and nobody is left"; else result "and nobody is left" "processes $left"; fi
}
kill_one 2
kill_one 0

# Calibration: ops in the first process, transfers between it and the second.
calib='--db costs.db --model small.ini -p 2 -v 1 --max-samples 3 --time-limit 50ms'
fine "calibration in two processes" 'transfer' 2 pipesim calib run $calib --profile two --transport mpi
if [ "$(grep -c '^transfer ' "$work/stdout")" -ge 8 ]; then result "all sizes"; else result "all sizes" "$(cat "$work/stdout")"; fi
fine "one device has no transfers" 'embedding' 2 pipesim calib run --db costs.db --model small.ini -p 1 -v 1 --max-samples 3 \
  --time-limit 50ms --profile lonely --transport mpi
fine "again, there is nothing left to do" 'transfer' 2 pipesim calib run $calib --profile two --transport mpi
if grep -q ': 0 measured in' "$work/stderr"; then result "nothing is measured"; else result "nothing is measured" "$(cat "$work/stderr")"; fi
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
one_line "a calibration's profile stays what it is" '.*mpi.*' 1 pipesim calib run $calib --profile two --transport mpi
fine "calibration in one process" 'transfer' 1 pipesim calib run $calib --profile one --transport mpi
fine "calibration in three" 'all-reduce' 3 pipesim calib run $calib --profile three --transport mpi
one_line "calibration within one process" 'rank [01]: transport threads: stays inside one process, and these are 2' \
  2 pipesim calib run $calib --profile four

# A sweep: every process takes its share, all write one database.
cat >spec.ini <<TEXT
[sweep]
schedule = gpipe, 1f1b, zb-h1, zb-v, dualpipe
devices = 8
microbatches = 16, 32
costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB
bandwidth-factor = 0.01..8 step 0.01
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
if [ "$(grep -c '^part [1-4] of 4: 2[0-9]* settings' "$work/stderr")" = 4 ]; then
  result "each has its share"
else
  result "each has its share" "$(cat "$work/stderr")"
fi
one_line "no second sweep over the first" 'shared.db: holds [0-9]+ settings already; --resume goes on with the others' 1 \
  pipesim sweep spec.ini --db shared.db
fine "one database each" '' 2 pipesim sweep spec.ini --db 'part{shard}.db'
rm -f shared.db*
pipesim sweep merge shared.db part0.db part1.db 2>"$work/stderr"
same_rows "which merge to the same"
refuse 2 "processes on several hosts can't write one database" \
  env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 pipesim sweep spec.ini --db new.db
env -u OMPI_COMM_WORLD_LOCAL_SIZE PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 pipesim sweep spec.ini --db mpich.db 2>"$work/stderr"
if grep -q '^part 2 of 2: ' "$work/stderr"; then result "MPICH's processes, too"; else result "MPICH's processes, too" "$(cat "$work/stderr")"; fi

# Killed where it is: --resume completes it.
sed 's/0.01..8 /0.001..8 /; s/step 0.01/step 0.001/' spec.ini >long.ini
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
stored=$(sqlite3 shared.db 'SELECT count (*) FROM prediction')
if [ $code -ne 0 ] && [ "$stored" -gt 0 ] && [ "$stored" -lt 80000 ]; then
  result "a killed sweep ends"
else
  result "a killed sweep ends" "exit code $code, $stored settings stored"
fi
fine "and goes on" '' 3 pipesim sweep long.ini --db shared.db --resume
rm -f alone.db*
pipesim sweep long.ini --db alone.db 2>/dev/null
same_rows "to what one gives that nobody killed"

# Tensors and gradients in memory that is not the host's.
emulated=$PIPESIM_BINDIR/tests/cuda/emulation
if [ -e "$emulated/pipesim-cuda.so" ]; then
  mkdir modules
  ln -s "$emulated"/*.so "$(cd "$PIPESIM_BINDIR" && pwd)/pipesim-mpi.so" modules
  PIPESIM_MODULE_DIR=$PWD/modules
  export PIPESIM_MODULE_DIR
  cuda='--schedule 1f1b -p 2 -m 2 --device cuda --transport mpi --model small.ini --steps 2 --check --json'
  fine "the cuda device, emulated" '"check": "bit-equal"' 2 pipesim exec $cuda
  fine "two copies of it" '"check": "equal-within"' 4 pipesim exec $cuda
  fine "on uneven parts" '"check": "bit-equal"' 2 pipesim exec $cuda --sm-shares 2,1
  launch 4 pipesim exec $cuda --sm-shares 2,1
  set -- "uneven parts are for one copy"
  grep -q 'sm-shares: are for one copy of 2 devices on one host; these are 4 processes, 4 of them here' "$work/stderr" \
    || set -- "$@" "exit code $code" "$(cat "$work/stderr")"
  result "$@"
else
  skip "the cuda device over MPI" "the emulated one was not built"
fi
finish
