# mpi-lib.sh - for command tests of several processes that a real mpirun starts: models, and checks of what all ranks say
# together. Source it after lib.sh; without MPI it ends the test. Times decide nothing.

# What mpirun wants where the tests run as root, or on fewer cores than there are processes. Open MPI 5 starts processes by PRRTE,
# which has names of its own.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
# On one host no rank needs to listen (docs/running.md). Looking for the networks of libfabric (ofi) takes most of the time that Open MPI
# needs to start. Two mpirun that begin at once may take each other's folder away.
export OMPI_MCA_btl=^tcp,ofi TMPDIR=$work
# What MPI's components keep to the end can't be told from what is ours: they are unloaded before anybody looks for leaks.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0

model_ini hidden=16 sequence=8 feed_forward=32 vocabulary=11 >small.ini # 512 B between stages, which MPI sends at once
model_ini sequence=64 feed_forward=32 vocabulary=11 >large.ini          # 8 KiB, for which MPI waits for the receiver
model_ini sequence=64 feed_forward=32 >bytes.ini
costs='--costs f=1ms,b=1ms,w=1ms,c=200us,act=1MiB'
few='--model small.ini -p 2 -v 1 --max-samples 3 --time-limit 50ms'

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

# one_line NAME CODE PATTERN RANKS COMMAND...: fails with CODE, and one process says one line. mpirun adds lines of its own; those of
# Open MPI 5 end in a null character.
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
  tr -d '\0' <"$work/stderr" | grep -E '^(pipesim exec|pipesim calib|pipesim sweep|mpi-ranks): ' >"$work/lines"
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

# killed RANK MODE...: mpirun says who was killed; nobody else has anything to add.
killed ()
{
  rank=$1
  shift
  begin_run "$@"
  hit KILL "$rank"
  set -- "rank $rank is killed"
  [ $code -eq 137 ] || [ $code -eq 9 ] || set -- "$@" "exit code $code"
  tr '\0\n' '  ' <"$work/stderr" | grep -qE "process rank $rank with PID .* exited on +signal 9|BAD TERMINATION" || set -- "$@" "mpirun does not name it"
  ! tr -d '\0' <"$work/stderr" | grep '^pipesim' || set -- "$@" "another one speaks"
  [ $# -eq 1 ] || set -- "$@" "$(cat "$work/stderr")"
  result "$@"
}
