#!/bin/sh
# slurm.sh - a real Slurm of one node, as root, starts runs: what srun's processes compute, and say when one of
# them is killed, stopped, or runs something else.
set -u
. "$(dirname "$0")/lib.sh"

nothing ()
{
  echo "1..0 # SKIP $1"
  exit 0
}

PATH=$PATH:/usr/sbin
for program in slurmctld slurmd munged srun mpirun; do
  command -v $program >/dev/null || nothing "there is no $program"
done
[ "$(id -u)" = 0 ] || nothing "Slurm starts processes as root only"
pipesim exec --schedule 1f1b -p 2 -m 2 --device null --transport mpi --steps 1 >/dev/null 2>&1 || nothing "this build has no MPI"

# Everything of this Slurm lies in its own folder, and its ports are of this process.
slurm=$work/slurm
host=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir -p "$slurm/state" "$slurm/spool" "$slurm/run"
chmod 700 "$slurm/run"
head -c 32 /dev/urandom >"$slurm/munge.key"
chmod 400 "$slurm/munge.key"
export SLURM_CONF="$slurm/slurm.conf"
cat >"$SLURM_CONF" <<TEXT
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$slurm/run/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/run/slurmctld.pid
SlurmdPidFile=$slurm/run/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP
TEXT

daemons=
trap 'kill $daemons 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
# daemon COMMAND...: in the background until the end.
daemon ()
{
  "$@" >>"$slurm/daemons" 2>&1 </dev/null &
  daemons="$daemons $!"
}
daemon munged --force --foreground --key-file="$slurm/munge.key" --socket="$slurm/run/munge" --pid-file="$slurm/run/munged.pid" \
  --log-file="$slurm/munged.log" --seed-file="$slurm/run/seed"
for i in $(seq 50); do [ -S "$slurm/run/munge" ] && break; sleep 0.1; done
daemon slurmctld -D -c -i
daemon slurmd -D -N "$host"
for i in $(seq 200); do sinfo -h -o %T 2>/dev/null | grep -qx idle && break; sleep 0.1; done
timeout 30 srun -n 2 true >>"$slurm/daemons" 2>&1 || nothing "Slurm does not start here: $(tail -n 1 "$slurm/daemons" | tr -d '#')"
srun --mpi=list 2>&1 | grep -q pmix || nothing "this Slurm has no PMIx"

model_ini hidden=16 sequence=8 feed_forward=32 >model.ini

# launch RANKS COMMAND...: its exit code becomes $code.
launch ()
{
  ranks=$1
  shift
  timeout -k 5 100 srun --mpi=pmix -n "$ranks" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
}

# fine NAME TEXT RANKS COMMAND...: ends with 0 and prints TEXT in one line.
fine ()
{
  name=$1 text=$2
  shift 2
  launch "$@"
  set -- "$name"
  [ $code -eq 0 ] || set -- "$@" "exit code $code"
  [ "$(cat "$work/stdout" "$work/stderr" | grep -cE -e "$text")" = 1 ] || set -- "$@" "not one '$text'"
  [ $# -eq 1 ] || set -- "$@" "$(cat "$work/stdout" "$work/stderr")"
  result "$@"
}

# one_line NAME PATTERN: of what was said; srun and MPI add lines of their own.
one_line ()
{
  grep -a '^pipesim' "$work/stderr" >"$work/lines"
  set -- "$1" "$2"
  if [ $code -ne 0 ] && [ "$(wc -l <"$work/lines")" -eq 1 ] && grep -qE "^pipesim exec: $2\$" "$work/lines"; then
    result "$1"
  else
    result "$1" "exit code $code" "$(cat "$work/stderr")"
  fi
}

mpi='--transport mpi'
fine "four ranks compute what one device computes" '"check": "bit-equal"' 4 pipesim exec --schedule zb-h1 -p 4 -m 8 --device cpu \
  --model model.ini $mpi --steps 3 --check --json
fine "two ranks with two devices each train" '^ +5 +' 2 pipesim exec --schedule 1f1b -p 4 -m 8 --device cpu --model model.ini --text sums \
  $mpi --steps 5 --losses losses.csv
if [ "$(wc -l <losses.csv)" -eq 6 ]; then result "and write their losses"; else result "and write their losses" "$(cat losses.csv)"; fi

# NCCL, emulated: each process takes itself for one of another host, so that it may have GPU 0 to itself.
emulated=$PIPESIM_BINDIR/tests/cuda/emulation
if [ -e "$emulated/pipesim-nccl.so" ]; then
  mkdir modules
  ln -s "$emulated"/*.so "$(cd "$PIPESIM_BINDIR" && pwd)/pipesim-mpi.so" modules
  fine "four GPUs that share layers in pairs" '"check": "equal-within"' 4 env PIPESIM_MODULE_DIR="$PWD/modules" \
    sh -c 'export NCCL_HOSTID="host-$SLURM_PROCID"; exec "$@"' - \
    pipesim exec --schedule 1f1b -p 2 -m 4 --device cuda --transport nccl --tensor 2 --model model.ini --steps 2 --check --json
else
  skip "four GPUs that share layers in pairs" "the emulated ones were not built"
fi

paced='pipesim-exec --schedule 1f1b -p 4 -m 8 --device paced --costs f=20ms,b=20ms,w=20ms --transport mpi --json'
launch 4 sh -c "if [ \$SLURM_PROCID = 2 ]; then exec $paced --steps 3; fi; exec $paced --steps 2"
one_line "one rank runs another number of steps" 'rank 0: rank 2 runs another .* than rank 0'

# hit NAME SIGNAL RANK PATTERN
hit ()
{
  : >"$work/pids"
  timeout -k 5 100 srun --mpi=pmix -n 4 sh -c "echo \$SLURM_PROCID \$\$ >>$work/pids; exec $paced --steps 100000 --timeout 5s" \
    >"$work/stdout" 2>"$work/stderr" </dev/null &
  job=$!
  for i in $(seq 300); do
    n=$(while read -r _ id; do grep -lx device "/proc/$id"/task/*/comm; done <"$work/pids" 2>/dev/null | wc -l)
    [ "$n" -lt 4 ] || break
    sleep 0.1
  done
  kill "-$2" "$(awk -v rank="$3" '$1 == rank { print $2 }' "$work/pids")"
  wait $job
  code=$?
  # srun cancels the step of a killed task, often before another rank has said so.
  if [ "$2" = KILL ] && [ $code -ne 0 ] && ! grep -aq '^pipesim' "$work/stderr" && grep -aq "task $3: Killed" "$work/stderr"; then
    result "$1"
  else
    one_line "$1" "$4"
  fi
}
late='rank [0-3]: (device [0-3]: waited 5 s for .*device [0-3] of rank [0-3].*|waited [56] s for rank [0-3] before .*step [0-9]+); no answer from rank'
hit "rank 1 is stopped" STOP 1 "$late 1"
hit "rank 2 is killed, which srun lets the others find out" KILL 2 "$late 2"
for i in $(seq 100); do
  left=$(while read -r _ id; do [ ! -d "/proc/$id" ] || echo "$id"; done <"$work/pids")
  [ -n "$left" ] || break
  sleep 0.1
done
if [ -z "$left" ]; then result "nobody is left"; else result "nobody is left" "processes $left"; fi
finish
