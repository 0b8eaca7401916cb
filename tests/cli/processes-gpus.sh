#!/bin/sh
# processes-gpus.sh - several processes over an emulated NCCL (tests/cuda/emulation), and what one process does with several
# GPUs.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/cli/lib.sh"
. "$tests/cli/mpi-lib.sh"

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
# Layers that devices share; sums within ops run in the device's own stream, and those of states in the host's memory.
shared='--schedule zb-h1 -p 2 -m 2 --model small.ini --tensor 2 --steps 2 --clip 0.01'
for way in "--device cuda --transport nccl" "--device cuda --transport threads" "--device cpu --transport nccl"; do
  rm -f run.safetensors
  if PS_EMULATED_DELAY_US=500 pipesim exec $shared $way --check --json --save run.safetensors >"$work/stdout" 2>"$work/stderr" \
    && grep -q equal-within "$work/stdout" && { [ ! -e first.safetensors ] || cmp -s run.safetensors first.safetensors || [ "${way#*cpu}" != "$way" ]; }; then
    result "shared layers on four GPUs in one process, $way"
  else
    result "shared layers on four GPUs in one process, $way" "$(cat "$work/stdout" "$work/stderr")"
  fi
  [ -e first.safetensors ] || mv run.safetensors first.safetensors
done
export PS_EMULATED_GPUS=2
equal "two ranks with two GPUs each" 2 $own_hosts pipesim exec --schedule zb-h1 -p 4 -m 8 $nccl
unset PS_EMULATED_GPUS

# One process for each GPU.
equal "four ranks over NCCL" 4 $own_hosts pipesim exec --schedule zb-h1 -p 4 -m 8 $nccl
equal "two stages a rank over NCCL" 2 $own_hosts pipesim exec --schedule zb-v -p 2 -m 4 $nccl
equal "two weight copies over NCCL" 4 $own_hosts pipesim exec --schedule chimera -p 4 -m 4 $nccl
fine "two copies of two ranks over NCCL" '"check": "equal-within"' 4 $own_hosts pipesim exec --schedule 1f1b -p 2 -m 4 $nccl $check
fine "four ranks that share layers over NCCL" '"check": "equal-within"' 4 $own_hosts pipesim exec $shared --device cuda --transport nccl --check --json \
  --save run.safetensors
cmp -s run.safetensors first.safetensors && set -- || set -- "other weights"
result "train the same as threads of one process" "$@"
fine "two that share layers over MPI" '"check": "equal-within"' 2 pipesim exec $shared --device cuda --transport mpi --check --json
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
