#!/bin/sh
# processes.sh - several processes that a real mpirun starts: runs over the mpi transport, ranks that differ, are killed or
# are stopped.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/cli/lib.sh"
. "$tests/cli/mpi-lib.sh"

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
one_line "a lost message is named" 1 'rank 2: device 2: waited 2 s for F7.3 from device 0 of rank 0' 3 "$PIPESIM_BINDIR/mpi-ranks" lost 3
one_line "one gives up, all end" 1 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" strike 3
# The other one may give up before it answers.
one_line "two give up at once, one says so" 1 'rank [12]: gave up; no answer from rank 0(, [12])?' 3 "$PIPESIM_BINDIR/mpi-ranks" rivals 3
one_line "one replica gives up, all end" 1 'rank 1: on strike' 3 "$PIPESIM_BINDIR/mpi-ranks" sum-strike 1

# Two hosts, which are this one twice: mpirun reaches each by a shell in place of ssh.
# Each host has a folder of its own for temporary files, or both would make the same ones at once.
printf '#!/bin/sh\nexport TMPDIR="$0.$1"\nmkdir -p "$TMPDIR"\nshift\nexec sh -c "$*"\n' >reach.sh
chmod +x reach.sh
if OMPI_MCA_btl=tcp,self OMPI_MCA_plm_rsh_agent=$PWD/reach.sh PRTE_MCA_plm_ssh_agent=$PWD/reach.sh timeout -k 5 120 mpirun -host a:2,b:2 -n 4 "$PIPESIM_BINDIR/mpi-ranks" apart 2 \
    >"$work/stdout" 2>"$work/stderr" </dev/null; then
  result "ranks of two hosts count by host and compare clocks"
elif mpirun --version | grep -q 'Open MPI) 4'; then # a later one knows by the host's own name that it is one
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
tr -d '\0' <"$work/stderr" | sort -u -o "$work/stderr"
[ $code -ne 137 ] || code=1 # mpirun of Open MPI 5 may kill itself, too, when ranks end before MPI_Init
check_line "processes without MPI" 1 'processes of MPI: there is no pipesim-mpi.so in /nowhere: .*'
apart='2 processes that MPI does not connect; start them with srun --mpi=pmix, or with the mpirun of the MPI that'
refuse 2 "SLURM_STEP_NUM_TASKS: $apart" env SLURM_STEP_NUM_TASKS=2 $run
refuse 2 "PMI_SIZE: $apart" env PMI_RANK=1 PMI_SIZE=2 $run

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

# stopped RANK PATTERN MODE...: the others do not wait longer than --timeout.
stopped ()
{
  rank=$1
  pattern=$2
  shift 2
  begin_run --timeout 2s "$@"
  hit STOP "$rank"
  check_line "rank $rank is stopped" 1 "$pattern"
}
mode='--device paced --transport mpi'
killed 2 $mode
killed 0 $mode
late='rank [0-3]: (device [0-3]: waited 2 s for .*device [0-3] of rank [0-3].*|waited [23] s for rank [0-3] before .*step [0-9]+); no answer from rank'
stopped 2 "$late 2" $mode
stopped 0 "$late 0" $mode
nobody_left
finish
