#!/bin/sh
# processes.sh - several processes that a real mpirun starts: runs over the mpi transport and over an emulated NCCL
# (tests/cuda/emulation), calibrations and sweeps; and what one process does with several GPUs. Times decide nothing here.
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

# odd.sh RANK ENVIRONMENT OPTIONS COMMAND...: the command, with more environment and options on that rank only; of schedules there is
# only one.
cat >odd.sh <<'TEXT'
rank=$1 special=$2 more=$3
shift 3
export NCCL_HOSTID="host-${PMIX_RANK:-$PMI_RANK}"
if [ "${PMIX_RANK:-$PMI_RANK}" = "$rank" ]; then
  case $more in --schedule*) set -- $(echo "$@" | sed 's/--schedule [^ ]*//') ;; esac
  exec env $special "$@" $more
fi
exec "$@"
TEXT
# With $own_hosts each process takes itself for one of another host, so that NCCL accepts GPU 0 of all of them.
own_hosts='sh odd.sh none - -'

# launch RANKS COMMAND...: its exit code becomes $code.
launch ()
{
  ranks=$1
  shift
  timeout -k 5 120 mpirun -n "$ranks" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
}

# fine NAME TEXT RANKS COMMAND...: ends with 0, prints TEXT in one line only, as rank 0 alone prints.
fine ()
{
  name=$1
  text=$2
  shift 2
  launch "$@"
  set -- "$name"
  [ $code -eq 0 ] || set -- "$@" "exit code $code" "$(cat "$work/stderr")"
  [ -z "$text" ] || [ "$(grep -cF -e "$text" "$work/stdout")" = 1 ] || set -- "$@" "not one '$text' in:" "$(head -20 "$work/stdout")"
  result "$@"
}

# equal NAME RANKS COMMAND...: the same bits as one device.
equal ()
{
  name=$1 ranks=$2
  shift 2
  fine "$name" '"check": "bit-equal"' "$ranks" "$@" --steps 3 --check --json
}

# one_line NAME CODE PATTERN RANKS COMMAND...: fails with CODE, and one process says one line. mpirun adds lines of its own.
one_line ()
{
  name=$1 expected=$2 pattern=$3
  shift 3
  launch "$@"
  check_line "$name" "$expected" "$pattern"
}

# check_line NAME CODE PATTERN: of $code and what was said.
check_line ()
{
  grep -E '^(pipesim exec|pipesim calib|pipesim sweep|mpi-ranks): ' "$work/stderr" >"$work/lines"
  problems=
  [ $code -eq "$2" ] || problems="exit code $code"
  [ "$(wc -l <"$work/lines")" -eq 1 ] || problems="$problems; not one line"
  grep -qE -e "^[a-z -]+: $3\$" "$work/lines" || problems="$problems; no '$3'"
  [ ! -s "$work/stdout" ] || problems="$problems; something was printed"
  if [ -z "$problems" ]; then result "$1"; else result "$1" "$problems" "$(cat "$work/stderr")"; fi
}

# The module says itself why it can't be used.
mpi='--device cpu --transport mpi'
if ! pipesim exec --schedule 1f1b -p 2 -m 2 $mpi --model small.ini >/dev/null 2>"$work/stderr" && grep -q 'there is no pipesim-mpi.so' "$work/stderr"; then
  skip "several processes" "this build has no MPI"
  finish
fi
if ! command -v mpirun >/dev/null; then
  skip "several processes" "there is no mpirun"
  finish
fi

if pipesim exec --schedule 1f1b -p 4 -m 8 $mpi --model large.ini --steps 3 --check >"$work/stdout" 2>"$work/stderr" \
    && grep -q bit-equal "$work/stdout"; then
  result "one process alone sends to itself"
else
  result "one process alone sends to itself" "$(cat "$work/stdout" "$work/stderr")"
fi
equal "four ranks, long messages" 4 pipesim exec --schedule 1f1b -p 4 -m 8 $mpi --model large.ini
equal "split backwards, short messages" 4 pipesim exec --schedule zb-h1 -p 4 -m 8 $mpi --model small.ini
equal "two ranks with two devices each" 2 pipesim exec --schedule 1f1b -p 4 -m 8 $mpi --model large.ini
fine "two copies of two ranks" '"check": "equal-within"' 4 pipesim exec --schedule 1f1b -p 2 -m 4 $mpi --steps 3 --check --json \
  --model large.ini
equal "two weight copies, four ranks" 4 pipesim exec --schedule chimera -p 4 -m 4 $mpi --model large.ini
sed '$a tied = true' small.ini >tied.ini
equal "a shared matrix on two of four ranks" 4 pipesim exec --schedule 1f1b -p 4 -m 4 $mpi --model tied.ini --layout "|Et*2|t*2L|"
equal "two weight copies, two devices a rank" 2 pipesim exec --schedule dualpipe -p 4 -m 8 $mpi --model small.ini
fine "two weight copies in two replicas" '"check": "equal-within"' 4 pipesim exec --schedule chimera -p 2 -m 4 $mpi --steps 2 --check \
  --json --model small.ini
equal "older weights" 2 pipesim exec --schedule pipedream -p 4 -m 3 $mpi --model small.ini
equal "older weights on four ranks" 4 pipesim exec --schedule pipedream-2bw -p 4 -m 4 $mpi --model small.ini
equal "steps without a meeting, all taken back" 4 pipesim exec --schedule zb-h1 -p 4 -m 8 $mpi --model small.ini --sync bypass --clip 0.001
equal "sequence slices" 2 pipesim exec --schedule seq1f1b -p 2 -m 4 $mpi --model small.ini
fine "devices that do nothing" 'gpipe on 3 devices (null, mpi)' 3 pipesim exec --schedule gpipe -p 3 -m 16 --device null --transport mpi
# A training in two processes is that of one, its file of losses and its checkpoint too.
sed 's/vocabulary = .*/vocabulary = 256/' large.ini >bytes.ini
train="pipesim exec --schedule 1f1b -p 2 -m 4 --device cpu --model bytes.ini --text sums --steps 6"
$train --losses alone.csv --save alone.safetensors >/dev/null 2>&1
fine "a training" '   6  ' 2 $train --transport mpi --losses two.csv --save two.safetensors --save-every 4
if cmp -s alone.safetensors two.safetensors; then result "and its checkpoint"; else result "and its checkpoint" "$(cmp alone.safetensors two.safetensors 2>&1)"; fi
cut -d, -f1-3 alone.csv >alone.losses
cut -d, -f1-3 two.csv >two.losses
if cmp -s alone.losses two.losses; then result "and its losses"; else result "and its losses" "$(diff alone.losses two.losses)"; fi
fine "two copies of two ranks save one" '' 4 $train --transport mpi --save copies.safetensors
fine "and go on" '   9  ' 4 $train --transport mpi --load copies.safetensors --steps 9
# The optimizer state of two replicas in shares: the same bits, whether a replica is one process or two.
equal_files ()
{
  if cmp -s "$2" "$3"; then result "$1"; else result "$1" "$(cmp "$2" "$3" 2>&1)"; fi
}
copies="$train --transport mpi --replicas 2"
shares="$copies --zero 1"
fine "a spread optimizer state" '   6  ' 4 $shares --save shares.safetensors
fine "and the whole one" '   6  ' 4 $copies --save copies.safetensors
equal_files "give the same state" copies.safetensors shares.safetensors
fine "one process for each copy" '   6  ' 2 $shares --save two.safetensors
equal_files "gives it, too" copies.safetensors two.safetensors
fine "a spread state goes on" '   9  ' 4 $shares --load shares.safetensors --steps 9 --save shares9.safetensors
fine "as the whole one does" '   9  ' 4 $copies --load copies.safetensors --steps 9 --save copies9.safetensors
equal_files "to the same state" copies9.safetensors shares9.safetensors
fine "gradients of a spread state" '"check": "equal-within"' 4 $shares --check --json
fine "clipped ones" '   6  ' 4 $shares --clip 0.01 --save clipped.safetensors
fine "and with the whole state" '   6  ' 4 $copies --clip 0.01 --save clipped-whole.safetensors
equal_files "give the same state, clipped" clipped-whole.safetensors clipped.safetensors
for schedule in chimera pipedream; do
  fine "$schedule with a spread state" '"check": "equal-within"' 4 pipesim exec --schedule $schedule -p 2 -m 4 $mpi --replicas 2 --zero 1 --steps 3 \
    --check --json --model small.ini
done
one_line "pipelines that processes can't share" 2 "rank [0-2]: 3 processes: can't run 2 pipelines of 2 devices; each needs.*" 3 $copies
fine "layers shared by two ranks are saved" '   6  ' 2 $train --transport mpi --tensor 2 --save parts.safetensors
fine "and whole ones go on with them" '   9  ' 2 $train --transport mpi --load parts.safetensors --steps 9
$train --tensor 2 --save parts6.safetensors --save-every 3 >/dev/null 2>&1
equal_files "threads save the same" parts.safetensors parts6.safetensors
$train --tensor 2 --steps 3 --save parts3.safetensors >/dev/null 2>&1
$train --tensor 2 --load parts3.safetensors --save parts6.safetensors >/dev/null 2>&1
equal_files "a saved state goes on as if it had not ended" parts.safetensors parts6.safetensors
tensor='pipesim exec --schedule zb-v -p 2 -m 4 --device cpu --model large.ini --tensor 2 --replicas 2 --zero 1 --check --json'
fine "shared layers on two ranks" '"check": "equal-within"' 2 $tensor --transport mpi
fine "and on eight" '"check": "equal-within"' 8 $tensor --transport mpi
fine "a spread state of shared layers" '   6  ' 4 $shares --transport mpi --tensor 2 --save spread.safetensors
fine "and the whole one" '   6  ' 4 $copies --transport mpi --tensor 2 --save held.safetensors
equal_files "are saved alike" held.safetensors spread.safetensors
fine "and go on" '   9  ' 4 $shares --transport mpi --tensor 2 --load spread.safetensors --steps 9 --save spread9.safetensors
fine "as one does" '   9  ' 4 $copies --transport mpi --tensor 2 --load held.safetensors --steps 9 --save held9.safetensors
equal_files "to the same" held9.safetensors spread9.safetensors
fine "shared layers are clipped without a meeting" '"check": "equal-within"' 2 pipesim exec --schedule zb-h1 -p 2 -m 4 $mpi --steps 3 --check \
  --json --model large.ini --tensor 2 --sync bypass --clip 0.01
parts='--db parts.db --profile parts --tensor 2'
fine "shared layers are measured on two ranks" '' 2 pipesim calib run $parts --model large.ini -p 2 -v 1 \
  --transport mpi --within 20 --max-samples 10 --time-limit 200ms
fine "and predicted" '"predicted_iteration_ns"' 2 pipesim exec --schedule 1f1b -p 2 -m 4 $mpi --model large.ini $parts --json
one_line "parts that are no processes" 2 "rank [0-2]: --tensor 2: needs one process, or one for each part; these are 3.*" 3 pipesim calib run \
  $parts --model large.ini -p 2 --transport mpi
for zero in 0 1; do
  $train --replicas 2 --zero $zero --save threads.safetensors >/dev/null 2>&1
  equal_files "both copies in one process, --zero $zero" copies.safetensors threads.safetensors
done
refuse 1 "--zero 1: not with --sync bypass" $shares --sync bypass
costs='--costs f=1ms,b=1ms,w=1ms,c=200us,act=1MiB'
paced="--device paced --transport mpi $costs"
fine "paced devices" 'interleaved on 4 devices (paced, mpi)' 2 pipesim exec --schedule interleaved -p 4 -m 8 $paced --steps 2 \
  --trace measured.json --predicted predicted.json
if pipesim compare predicted.json measured.json >"$work/stdout" 2>&1 && grep -q 'transfer  112' "$work/stdout"; then
  result "the timeline has the ops and transfers of all ranks"
else
  result "the timeline has the ops and transfers of all ranks" "$(cat "$work/stdout")"
fi
if [ "$(grep -cE '"(SEND|RECEIVE) [FB]' measured.json)" -eq 224 ]; then
  result "and the posts of both ends"
else
  result "and the posts of both ends" "$(grep -c '"SEND ' measured.json) sends, $(grep -c '"RECEIVE ' measured.json) receives"
fi

for scene in storm-short storm-long; do
  fine "$scene: everybody to everybody in any order" '' 3 "$PIPESIM_BINDIR/mpi-ranks" $scene 3
done
fine "sums over two replicas of two devices" '' 4 "$PIPESIM_BINDIR/mpi-ranks" sum 2
fine "sums over three replicas" '' 3 "$PIPESIM_BINDIR/mpi-ranks" sum 1
one_line "a lost message is named" 1 'rank 2: device 2: waited 2 s for F7.3 from device 0' 3 "$PIPESIM_BINDIR/mpi-ranks" lost 3
one_line "one gives up, all end" 1 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" strike 3
one_line "one replica gives up, all end" 1 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" sum-strike 1

# Two hosts, which are this one twice: mpirun reaches each by a shell in place of ssh.
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >reach.sh
chmod +x reach.sh
if OMPI_MCA_btl=tcp,self OMPI_MCA_plm_rsh_agent=$PWD/reach.sh timeout -k 5 120 mpirun -host a:2,b:2 -n 4 "$PIPESIM_BINDIR/mpi-ranks" apart 2 \
    >"$work/stdout" 2>"$work/stderr" </dev/null; then
  result "ranks of two hosts count by host and compare clocks"
elif mpirun --version | grep -q 'Open MPI'; then
  result "ranks of two hosts count by host and compare clocks" "$(cat "$work/stderr")"
else
  skip "ranks of two hosts" "this mpirun can't be led to one host twice"
fi

# Ranks that differ.
run="pipesim exec --schedule 1f1b -p 4 -m 8 $paced --steps 2"
one_line "a wrong option" 2 'rank [0-2]: Unknown option --stepps; did you mean --steps[?]' 3 pipesim exec --stepps 3
one_line "threads don't reach other processes" 2 'rank [0-3]: transport threads: stays inside one process, and these are 4' \
  4 pipesim exec --schedule 1f1b -p 4 -m 8 --device paced $costs
one_line "not enough ranks" 2 'rank [0-2]: 3 processes: as many as the schedule has devices, 4, a multiple of that or a divisor of it are needed' \
  3 $run
while read what option; do
  one_line "one rank runs another $what" 1 "rank 0: rank 2 runs another $what than rank 0" 4 sh odd.sh 2 '' "$option" $run
done <<TEXT
number\ of\ steps --steps 3
schedule --schedule gpipe
schedule -m 16
device\ or\ transport --device null
TEXT
large="pipesim exec --schedule 1f1b -p 4 -m 8 $mpi --model large.ini --steps 2"
one_line "one rank runs another model" 1 "rank 0: rank 2 runs another model than rank 0" 4 sh odd.sh 2 '' '--model bytes.ini' $large
one_line "one rank learns faster" 1 "rank 0: rank 2 runs another training than rank 0" 4 sh odd.sh 2 '' '--learning-rate 0.01' $large
one_line "one rank saves" 1 "rank 0: rank 2 runs another training than rank 0" 4 sh odd.sh 2 '' '--save-every 1 --save x' $large
one_line "one rank has another seed" 1 "rank 0: rank 2 runs another seed than rank 0" 4 sh odd.sh 2 '' '--seed 7' $large
one_line "one rank is told nonsense" 2 "rank 2: --steps: '0' .*" 4 sh odd.sh 2 '' '--steps 0' $run
one_line "one rank lacks a file" 1 "rank 2: no-such.csv: .*" 4 sh odd.sh 2 '' '--schedule no-such.csv' $run

# What needs several processes says so where there is only one.
launch 4 env PIPESIM_MODULE_DIR=/nowhere $run
sort -u "$work/stderr" -o "$work/stderr"
check_line "processes without MPI" 1 'processes of MPI: there is no pipesim-mpi.so in /nowhere: .*'
apart='2 processes that MPI does not connect; start them with srun --mpi=pmix, or with the mpirun of the MPI that'
refuse 2 "SLURM_STEP_NUM_TASKS: $apart" env SLURM_STEP_NUM_TASKS=2 $run
refuse 2 "PMI_SIZE: $apart" env PMI_RANK=1 PMI_SIZE=2 $run

# begin_run MODE...: four processes in the background that don't end; their ids are in $pids once all are at work, which they
# are when they have their threads. As JSON nothing is printed before the end.
begin_run ()
{
  : >"$work/pids"
  # The shell's id stays when it becomes the program.
  timeout -k 5 120 mpirun -n 4 $own_hosts sh -c 'echo "${PMIX_RANK:-$PMI_RANK} $$" >>"$0"; exec "$@"' "$work/pids" \
    pipesim-exec --schedule 1f1b -p 4 -m 8 --costs f=20ms,b=20ms,w=20ms --steps 1000000 --json "$@" >"$work/stdout" 2>"$work/stderr" </dev/null &
  job=$!
  while [ "$(wc -l <"$work/pids")" -lt 4 ] && kill -0 $job 2>/dev/null; do sleep 0.05; done
  while read -r _ id; do
    while [ -d "/proc/$id/task" ] && ! grep -qx device "/proc/$id"/task/*/comm 2>/dev/null; do sleep 0.05; done
  done <"$work/pids"
}

# hit SIGNAL RANK
hit ()
{
  cat "$work/pids" >>"$work/all"
  kill "-$1" "$(awk -v rank="$2" '$1 == rank { print $2 }' "$work/pids")"
  wait $job
  code=$?
}

# nobody_left: mpirun ends before the processes that it has told to end.
nobody_left ()
{
  for i in $(seq 200); do
    left=$(awk '{ print $2 }' "$work/all" | while read -r id; do [ ! -d "/proc/$id" ] || echo "$id"; done)
    [ -n "$left" ] || break
    sleep 0.1
  done
  if [ -z "$left" ]; then result "nobody is left"; else result "nobody is left" "processes $left"; fi
}

# killed RANK MODE...: mpirun says who was killed; nobody else has anything to add.
killed ()
{
  rank=$1
  shift
  begin_run "$@"
  hit KILL "$rank"
  set -- "rank $rank is killed"
  [ $code -eq 137 ] || [ $code -eq 9 ] || set -- "$@" "exit code $code"
  grep -qE "process rank $rank with PID .* exited on signal 9|BAD TERMINATION" "$work/stderr" || set -- "$@" "mpirun does not name it"
  ! grep '^pipesim' "$work/stderr" || set -- "$@" "another one speaks"
  [ $# -eq 1 ] || set -- "$@" "$(cat "$work/stderr")"
  result "$@"
}

# stopped RANK PATTERN MODE...: the others do not wait longer than --timeout.
stopped ()
{
  rank=$1
  pattern=$2
  shift 2
  begin_run --timeout 1s "$@"
  hit STOP "$rank"
  check_line "rank $rank is stopped" 1 "$pattern"
}
mode='--device paced --transport mpi'
killed 2 $mode
killed 0 $mode
late='rank [0-3]: (device [0-3]: )?waited 1 s for (F|B|its|rank).*'
stopped 2 "$late" $mode
stopped 0 "$late" $mode
nobody_left

# Calibration: ops in the first process, transfers between it and the second.
few='--model small.ini -p 2 -v 1 --max-samples 3 --time-limit 50ms'
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
one_line "calibration within one process" 2 'rank [01]: transport threads: stays inside one process, and these are 2' \
  2 pipesim calib run $calib --profile four
one_line "one rank calibrates another model" 1 'rank 1: no-such.ini: .*' 2 sh odd.sh 1 '' '--model no-such.ini' \
  pipesim calib run $calib --profile five --transport mpi

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
sed 's/0.01..8 /0.002..8 /; s/step 0.01/step 0.002/' spec.ini >long.ini
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
if [ $code -ne 0 ] && [ "$stored" -gt 0 ] && [ "$stored" -lt 40000 ]; then
  result "a killed sweep ends"
else
  result "a killed sweep ends" "exit code $code, $stored settings stored"
fi
fine "and goes on" '' 3 pipesim sweep long.ini --db shared.db --resume
rm -f alone.db*
pipesim sweep long.ini --db alone.db 2>/dev/null
same_rows "to what one gives that nobody killed"

# Devices and NCCL, emulated: tensors and gradients in memory that is not the host's.
emulated=$PIPESIM_BINDIR/tests/cuda/emulation
if [ ! -e "$emulated/pipesim-nccl.so" ]; then
  skip "the cuda device and NCCL" "the emulated ones were not built"
  finish
fi
mkdir modules
ln -s "$emulated"/*.so "$(cd "$PIPESIM_BINDIR" && pwd)/pipesim-mpi.so" modules
PIPESIM_MODULE_DIR=$PWD/modules
export PIPESIM_MODULE_DIR
cuda='--schedule 1f1b -p 2 -m 2 --device cuda --transport mpi --model small.ini --steps 2 --check --json'
fine "the cuda device over MPI" '"check": "bit-equal"' 2 pipesim exec $cuda
fine "two copies of it" '"check": "equal-within"' 4 pipesim exec $cuda
fine "on uneven parts" '"check": "bit-equal"' 2 pipesim exec $cuda --sm-shares 2,1
one_line "uneven parts are for one copy" 2 \
  'rank [0-3]: --sm-shares: are for one copy of 2 devices on one host; these are 4 processes, 4 of them here' 4 pipesim exec $cuda --sm-shares 2,1

# One process, a thread for each GPU: the default on one machine.
nccl='--device cpu --transport nccl --model small.ini'
check='--steps 3 --check --json'
export PS_EMULATED_GPUS=4
for way in "--device cuda --transport nccl" "--device cuda --transport threads" "--device cpu --transport nccl"; do
  if pipesim exec --schedule zb-h1 -p 4 -m 2 $way --model small.ini --steps 2 --check --json >"$work/stdout" 2>"$work/stderr" && grep -q bit-equal "$work/stdout"; then
    result "four GPUs in one process, $way"
  else
    result "four GPUs in one process, $way" "$(cat "$work/stdout" "$work/stderr")"
  fi
done
for way in "--transport nccl" "--transport threads"; do
  if pipesim exec --schedule dualpipe -p 4 -m 8 --device cuda $way --model small.ini --steps 2 --check --json >"$work/stdout" 2>"$work/stderr" && grep -q bit-equal "$work/stdout"; then
    result "two weight copies on four GPUs, $way"
  else
    result "two weight copies on four GPUs, $way" "$(cat "$work/stdout" "$work/stderr")"
  fi
done
export PS_EMULATED_GPUS=2
equal "two ranks with two GPUs each" 2 $own_hosts pipesim exec --schedule zb-h1 -p 4 -m 8 $nccl
unset PS_EMULATED_GPUS

# One process for each GPU.
equal "four ranks over NCCL" 4 $own_hosts pipesim exec --schedule zb-h1 -p 4 -m 8 $nccl
equal "two stages a rank over NCCL" 2 $own_hosts pipesim exec --schedule zb-v -p 2 -m 4 $nccl
equal "two weight copies over NCCL" 4 $own_hosts pipesim exec --schedule chimera -p 4 -m 4 $nccl
fine "two copies of two ranks over NCCL" '"check": "equal-within"' 4 $own_hosts pipesim exec --schedule 1f1b -p 2 -m 4 $nccl $check
cuda='pipesim exec --schedule 1f1b -p 2 -m 1 --device cuda --transport nccl --model small.ini'
equal "ranks that choose different algorithms" 2 sh odd.sh 1 PS_EMULATED_ALGORITHM=1 '' $cuda
fine "a calibration adds up over all ranks" 'stage shape' 3 $own_hosts pipesim calib run --db nccl.db --profile x $few --transport nccl
run="pipesim exec --schedule 1f1b -p 4 -m 8 --device paced --transport nccl $costs --steps 2"
mkdir lacking
ln -s "$PWD/modules/pipesim-mpi.so" lacking
one_line "what one rank lacks" 1 'rank 2: nccl transport: there is no pipesim-nccl.so in .*lacking: .*' 4 \
  sh odd.sh 2 "PIPESIM_MODULE_DIR=$PWD/lacking" '' $run
one_line "one GPU for all" 1 'rank [0-3]: device [0-3]: shares GPU 0000:00:00.0 with device [0-3]; NCCL needs a GPU for each' 4 $run
# A message that never arrives: the watchdog names an instruction that waits for it.
one_line "a hang is named" 1 'rank [0-3]: device [0-3]: (SEND|RECEIVE) [FB][0-9]+\.[0-9]+ (to|from) device [0-3]: not done after 2 s' 4 \
  sh odd.sh 1 PS_EMULATED_LOST_SEND=10 '' $run --timeout 2s
killed 2 --device paced --transport nccl

export PS_EMULATED_GPUS=4
# posts OPTION...: the sends and receives of each device in their order, to the file $order.
posts ()
{
  order=$1
  shift
  rm -f run.json
  pipesim exec --device paced --steps 1 --trace run.json "$@" >"$work/stdout" 2>&1
  sed -n 's/^ *\(\[[0-9]*, "\(SEND\|RECEIVE\) [FB][0-9.]*"\).*/\1/p' run.json >"$order"
}
nccl='--transport nccl --costs f=1ms,b=1ms,w=1ms,c=300us'
zb='zb-h1 -p 4 -m 8'
posts default --schedule $zb $nccl
posts planned --schedule $zb $nccl --comm-order planned
posts asap --schedule $zb $nccl --comm-order asap
posts threads --schedule $zb --costs f=1ms,b=1ms,w=1ms,c=300us
set --
[ -s default ] && cmp -s default planned || set -- "$@" "not planned over nccl"
! cmp -s default asap || set -- "$@" "asap over nccl"
cmp -s threads asap || set -- "$@" "not asap over threads"
result "transfers over nccl are planned unless told otherwise" "$@"
pipesim schedule convert $zb --comm-order asap --to torch-comms -o own.csv 2>/dev/null
posts own --schedule own.csv $nccl
cmp -s own asap && set -- || set -- "not the order of the file: $(diff own asap | head -5)"
result "a file's own order stays" "$@"
finish
