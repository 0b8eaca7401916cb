#!/bin/sh
# processes.sh - one run in several processes: over an emulated NCCL (tests/cuda/emulation), so that no GPU is needed. Times
# decide nothing here.
set -u
. "$(dirname "$0")/lib.sh"

export PIPESIM_MODULE_DIR=$PIPESIM_BINDIR/tests/cuda/emulation
port=$((20000 + $$ % 10000))

cat >small.ini <<TEXT
[model]
layers = 4
hidden = 16
heads = 2
sequence = 8
feed_forward = 32
vocabulary = 11
microbatch_size = 1
precision = fp32
mlp = gelu
flash_attention = false
TEXT

# start RANK RANKS ARGUMENT...: one process of a run, in the background; its id becomes $pid. What a test sets for one rank
# only is in $special, and what is said to it only in $more, for rank $special_rank.
program=pipesim-exec
special=
more=
special_rank=
host=own
start ()
{
  rank=$1
  ranks=$2
  shift 2
  extra=
  last=
  if [ "$rank" = "$special_rank" ]; then
    extra=$special
    last=$more
  fi
  hostid=shared
  if [ $host = own ]; then hostid=host-$rank; fi
  env RANK=$rank WORLD_SIZE=$ranks MASTER_PORT=$port NCCL_HOSTID=$hostid $extra \
    "$PIPESIM_BINDIR/$program" "$@" $last >"$work/out.$rank" 2>"$work/err.$rank" </dev/null &
  pid=$!
}

# together RANKS ARGUMENT...: all processes; their exit codes become $codes.
together ()
{
  port=$((port + 1))
  pids=
  for i in $(seq 0 $(($1 - 1))); do
    start $i "$@"
    pids="$pids $pid"
  done
  codes=
  for i in $pids; do
    wait $i
    codes="$codes $?"
  done
}

# fine NAME TEXT RANKS ARGUMENT...: all exit with 0, rank 0 prints TEXT, the others nothing.
fine ()
{
  name=$1
  text=$2
  shift 2
  together "$@"
  others=$(cat $(seq -f "$work/out.%.0f" 1 $(($1 - 1))))
  set -- "$name"
  case $codes in *[1-9]*) set -- "$@" "exit codes $codes" "$(cat "$work"/err.*)" ;; esac
  grep -qF -e "$text" "$work/out.0" || set -- "$@" "no '$text' in:" "$(head -20 "$work/out.0")"
  [ -z "$others" ] || set -- "$@" "another rank printed: $others"
  result "$@"
}

# same_line NAME CODE PATTERN RANKS [DEAD]: of $codes and what was said: every rank but DEAD has ended with CODE and one same
# line that matches PATTERN.
same_line ()
{
  name=$1 code=$2 pattern=$3 ranks=$4 dead=${5:-none}
  set -- "$name"
  i=0
  for c in $codes; do
    if [ $i != "$dead" ]; then
      [ "$c" = "$code" ] || set -- "$@" "rank $i: exit code $c, not $code"
      [ "$(wc -l <"$work/err.$i")" -eq 1 ] || set -- "$@" "rank $i: not one line"
      grep -qE -e "^pipesim exec: $pattern\$" "$work/err.$i" || set -- "$@" "rank $i: no '$pattern' in: $(cat "$work/err.$i")"
      [ ! -s "$work/out.$i" ] || set -- "$@" "rank $i printed something"
    fi
    i=$((i + 1))
  done
  [ $# -gt 1 ] || [ "$(cat "$work"/err.[0-9] | sort -u | wc -l)" -eq 1 ] || set -- "$@" "ranks differ: $(cat "$work"/err.*)"
  result "$@"
  rm -f "$work"/err.* "$work"/out.*
}

cpu='--device cpu --transport nccl --model small.ini --steps 3'
paced='--device paced --transport nccl --costs f=1ms,b=1ms,w=1ms,c=200us,act=1MiB --steps 2'
fine "two ranks compute what one does" '"check": "bit-equal"' 2 --schedule 1f1b -p 2 -m 4 $cpu --check --json
fine "four ranks, split backwards" '"check": "bit-equal"' 4 --schedule zb-h1 -p 4 -m 8 $cpu --check --json
fine "two stages a rank" '"check": "bit-equal"' 2 --schedule zb-v -p 2 -m 4 $cpu --check --json
fine "two copies of two ranks" '"check": "equal-within"' 4 --schedule 1f1b -p 2 -m 4 $cpu --check --json
fine "paced devices" 'interleaved on 4 devices (paced, nccl)' 4 --schedule interleaved -p 4 -m 8 $paced --trace measured.json --predicted predicted.json
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

fine "the cuda device, emulated" '"check": "bit-equal"' 2 --schedule 1f1b -p 2 -m 2 --device cuda --transport nccl --model small.ini \
  --steps 2 --check --json
special_rank=1 special='PS_EMULATED_ALGORITHM=1'
fine "ranks that choose different algorithms" '"check": "bit-equal"' 2 --schedule 1f1b -p 2 -m 2 --device cuda --transport nccl \
  --model small.ini --steps 2 --check --json
special_rank= special=
program=pipesim-calib
fine "a calibration adds up over all ranks" 'all-reduce' 3 run --db costs.db --profile x --model small.ini -p 2 -v 1 \
  --transport nccl --max-samples 3 --time-limit 50ms
program=pipesim-exec
small="--schedule 1f1b -p 4 -m 8 $paced"
together 4 --schedule 1f1b -p 4 -m 8 --device paced --costs f=1ms,b=1ms,w=1ms
same_line "threads don't reach other processes" 2 'rank [0-3]: transport threads: stays inside one process, and these are 4' 4
together 3 $small
same_line "not enough ranks" 2 'rank [0-2]: 3 processes: as many as the schedule has devices, 4, a multiple of that or a divisor of it are needed' 3
special_rank=2 special='PIPESIM_MODULE_DIR=/nowhere'
together 4 $small
same_line "what one rank lacks" 1 'rank 2: nccl transport: there is no pipesim-nccl.so in /nowhere: .*' 4
special='WORLD_SIZE=5'
together 4 $small
same_line "one rank counts differently" 1 'rank 2: is one of 5 ranks, rank 0 one of 4' 4
special='' more='--steps 3'
together 4 $small
same_line "one rank runs something else" 1 'rank 0: rank 2 runs another schedule, setting or version than rank 0' 4
special='' more='--steps 0'
together 4 $small
same_line "one rank is told nonsense" 2 "rank 2: --steps: '0' .*" 4
more=
special='WORLD_SIZE=x'
start 2 4 $small
wait $pid
codes="0 0 $?"
if [ "$codes" = "0 0 2" ] && grep -q "WORLD_SIZE: 'x'" "$work/err.2"; then result "nonsense"; else result "nonsense" "$(cat "$work/err.2")"; fi
special_rank=
host=shared
together 4 $small
same_line "one GPU for all" 1 'rank [0-3]: device [0-3]: shares GPU 0000:00:00.0 with device [0-3]; NCCL needs a GPU for each' 4
host=own

# A message that never arrives: the watchdog names an instruction that waits for it.
special_rank=1 special='PS_EMULATED_LOST_SEND=10'
together 4 $small --timeout 2s
same_line "a hang is named" 1 'rank [0-3]: device [0-3]: (SEND|RECEIVE) [FB][0-9]+\.[0-9]+ (to|from) device [0-3]: not done after 2 s' 4
special_rank=

# A rank that is killed while all are at work: it has started its thread for the device then, and so have the others soon.
kill_one ()
{
  dead=$1
  port=$((port + 1))
  pids=
  for i in 0 1 2 3; do
    start $i 4 --schedule 1f1b -p 4 -m 8 --device paced --transport nccl --costs f=20ms,b=20ms,w=20ms --steps 1000000
    pids="$pids $pid"
    [ $i = "$dead" ] && victim=$pid
  done
  while [ -d "/proc/$victim/task" ] && [ "$(ls "/proc/$victim/task" | wc -l)" -lt 4 ]; do sleep 0.05; done
  kill -9 "$victim"
  codes=
  for i in $pids; do
    wait $i 2>/dev/null
    codes="$codes $?"
  done
  : >"$work/err.$dead"
  same_line "rank $dead is killed" 1 "rank $dead: has ended without a word" 4 "$dead"
}
kill_one 2
kill_one 0

# Several GPUs in one process.
export PS_EMULATED_GPUS=2
fine "two ranks with two GPUs each" '"check": "bit-equal"' 2 --schedule zb-h1 -p 4 -m 8 $cpu --check --json
export PS_EMULATED_GPUS=4
if pipesim exec --schedule zb-h1 -p 4 -m 8 $cpu --check --json >"$work/stdout" 2>"$work/stderr" && grep -q bit-equal "$work/stdout"; then
  result "four GPUs in one process"
else
  result "four GPUs in one process" "$(cat "$work/stdout" "$work/stderr")"
fi

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
pipesim schedule convert $zb --comm-order asap --to torch-comms -o own.csv
posts own --schedule own.csv $nccl
cmp -s own asap && set -- || set -- "not the order of the file: $(diff own asap | head -5)"
result "a file's own order stays" "$@"
finish
