#!/bin/sh
# hosts.sh - two hosts, which are network namespaces with names of their own and a cable between them: mpirun starts ranks on both,
# and messages go through TCP. Times decide nothing here.
set -u
. "$(dirname "$0")/lib.sh"

nothing ()
{
  echo "1..0 # SKIP $1"
  exit 0
}

for program in ip unshare mpirun; do
  command -v $program >/dev/null || nothing "there is no $program"
done
mpirun --version 2>/dev/null | grep -q 'Open MPI' || nothing "this mpirun can't be led to other hosts"
pipesim exec --schedule 1f1b -p 2 -m 2 --device null --transport mpi --steps 1 >/dev/null 2>&1 || nothing "this build has no MPI"

# Namespaces pipesim-ID-a and pipesim-ID-b; their ends of the cable are called after them.
id=$$
trap 'ip netns del pipesim-$id-a 2>/dev/null; ip netns del pipesim-$id-b 2>/dev/null; rm -rf "$work"' EXIT
lay_cable ()
{
  ip netns add pipesim-$id-a && ip netns add pipesim-$id-b && ip link add v${id}a type veth peer name v${id}b \
    && ip link set v${id}a netns pipesim-$id-a && ip link set v${id}b netns pipesim-$id-b \
    && ip -n pipesim-$id-a addr add 10.77.0.1/24 dev v${id}a && ip -n pipesim-$id-b addr add 10.77.0.2/24 dev v${id}b || return 1
  for end in a b; do
    ip -n pipesim-$id-$end link set lo up && ip -n pipesim-$id-$end link set v$id$end up || return 1
  done
}
lay_cable 2>"$work/stderr" && ip netns exec pipesim-$id-a unshare --uts true 2>>"$work/stderr" \
  || nothing "network namespaces are not permitted: $(head -n 1 "$work/stderr" | tr -d '#')"

# mpirun reaches a host by this in place of ssh.
printf '#!/bin/sh\nname=$1\nshift\nexec ip netns exec pipesim-%s-$name unshare --uts sh -c "hostname $name; $*"\n' $id >reach.sh
chmod +x reach.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=tcp,self OMPI_MCA_plm_rsh_agent=$PWD/reach.sh
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_plm_ssh_agent=$PWD/reach.sh
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0

model_ini sequence=64 feed_forward=32 >model.ini

# on_two COMMAND...: four ranks, two on each host.
on_two ()
{
  timeout -k 5 120 ip netns exec pipesim-$id-a unshare --uts sh -c 'hostname a; exec mpirun -host a:2,b:2 -n 4 "$@"' sh "$@" \
    >"$work/stdout" 2>"$work/stderr" </dev/null
}

# computes NAME OPTION...
computes ()
{
  name=$1
  shift
  if on_two pipesim exec --device cpu --model model.ini --transport mpi --steps 3 --check --json "$@" \
      && grep -qE '"check": "(bit-equal|equal-within)"' "$work/stdout"; then
    result "$name"
  else
    result "$name" "$(cat "$work/stdout" "$work/stderr")"
  fi
}

if on_two sh -c 'hostname' && [ "$(sort "$work/stdout" | uniq -c | tr -s ' \n' ' ')" = " 2 a 2 b " ]; then
  result "two ranks on each host"
else
  result "two ranks on each host" "$(cat "$work/stdout" "$work/stderr")"
  finish
fi
computes "a pipeline over both" --schedule zb-h1 -p 4 -m 8
computes "two copies of two devices" --schedule 1f1b -p 2 -m 4
computes "two weight copies" --schedule chimera -p 4 -m 4
# Devices 0 and 1 share a host, and so do 2 and 3.
if on_two pipesim calib run --db hosts.db --profile hosts --model model.ini -p 4 -v 1 --transport mpi --max-samples 2 --time-limit 20ms \
    && pipesim calib show --db hosts.db >shown && grep -q '^links of class machine: 0-1 stands for it; 2-3 ' shown \
    && grep -q '^links of class network: 1-2 stands for it; 0-3 ' shown; then
  result "links are of two classes"
else
  result "links are of two classes" "$(cat shown "$work/stdout" "$work/stderr")"
fi
if [ "$(grep -c '^transfer  *link=network' shown)" -ge 8 ]; then result "each measured in all sizes"; else result "each measured in all sizes" "$(cat shown)"; fi
train="pipesim exec --schedule 1f1b -p 4 -m 4 --device cpu --model model.ini --text sums --steps 4"
$train --save alone >/dev/null 2>&1
if on_two $train --transport mpi --save both && cmp -s alone both; then result "a training is that of one host"; else result "a training is that of one host" "$(cat "$work/stderr")"; fi

# Messages get lost between the hosts while all are at work: the ranks of both end by themselves, and one says why. mpirun, which
# would wait for the other host for ever, is ended then.
: >"$work/pids"
on_two sh -c 'echo $$ >>"$0"; exec "$@"' "$work/pids" pipesim-exec --schedule 1f1b -p 4 -m 8 --device paced --costs f=20ms,b=20ms,w=20ms \
  --transport mpi --steps 1000000 --timeout 3s --json &
job=$!
for i in $(seq 600); do
  n=$(while read -r process; do grep -lx device "/proc/$process"/task/*/comm; done <"$work/pids" 2>/dev/null | wc -l)
  [ "$n" -lt 4 ] || break
  sleep 0.1
done
ip -n pipesim-$id-a neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev v${id}a nud permanent
ip -n pipesim-$id-b neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev v${id}b nud permanent
for i in $(seq 600); do
  left=$(while read -r process; do [ ! -d "/proc/$process" ] || echo "$process"; done <"$work/pids")
  [ -n "$left" ] || break
  sleep 0.1
done
if [ -z "$left" ]; then result "lost messages end all ranks of both hosts"; else result "lost messages end all ranks of both hosts" "processes $left are left"; fi
if grep -qE '^pipesim exec: rank [0-3]: (device [0-3]: )?waited [36] s for .*; no answer from rank (0, 1|2, 3)$' "$work/stderr"; then
  result "and one says what it waited for"
else
  result "and one says what it waited for" "$(cat "$work/stderr")"
fi
kill -9 $(ip netns pids pipesim-$id-a; ip netns pids pipesim-$id-b) 2>/dev/null
wait $job 2>/dev/null
finish
