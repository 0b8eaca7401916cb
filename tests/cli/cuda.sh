#!/bin/sh
# cuda.sh - pipesim exec --device cuda from the command line, on the emulation in PIPESIM_MODULE_DIR: pipelines compute what
# one device computes, and what is missing is said in one line.
set -u
. "$(dirname "$0")/lib.sh"

# model NAME PRECISION MLP
model ()
{
  cat >"$1.ini" <<TEXT
[model]
layers = 4
hidden = 32
heads = 1
sequence = 12
feed_forward = 64
vocabulary = 40
microbatch_size = 1
precision = $2
mlp = $3
flash_attention = true
TEXT
}

# equal MODEL SCHEDULE OPTION...: the run's losses and gradients are those of one device, bit for bit.
equal ()
{
  what="$2 $1: bit-equal"
  model=$1
  schedule=$2
  shift 2
  output=$(pipesim exec --schedule "$schedule" "$@" --model "$model.ini" --device cuda --check --steps 2 2>&1)
  case $output in
    *'check against one device: bit-equal'*) result "$what" ;;
    *) result "$what" "$output" ;;
  esac
}

model gpt bf16 gelu
model gpt32 fp32 gelu
model llama bf16 swiglu
equal gpt zb-h1 -p 2 -m 4
equal gpt32 1f1b -p 4 -m 4
equal llama zb-h1 -p 4 -m 4
equal gpt interleaved -p 2 -m 2 -v 2
equal gpt zb-v -p 2 -m 2
equal gpt 1f1b -p 4 -m 4 --sm-shares 40,30,20,10

shares ()
{
  refuse "$1" "$2" pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt.ini --device "${4:-cuda}" --sm-shares "$3" --transport "${5:-threads}"
}
shares 2 "--sm-shares: '1,2,3' has 3 shares for 2 devices" 1,2,3
shares 2 "--sm-shares: '' has 0 shares for 2 devices" ''
shares 2 "--sm-shares: '0' is not an integer from 1 to 1000000" 0,1
shares 2 "--sm-shares: 'x' is not an integer from 1 to 1000000" 1,x
shares 2 "--sm-shares: device cpu does not split an accelerator" 1,2 cpu
shares 2 "--sm-shares: with transport nccl every device has a GPU to itself" 1,2 cuda nccl
refuse 1 "device 0: cuda device: unequal shares of a GPU can't be had: the driver has none" \
  env PS_EMULATED_NO_GREEN_CONTEXTS=1 pipesim exec --schedule 1f1b -p 2 -m 2 --model gpt.ini --device cuda --sm-shares 1,2

sed 's/bf16/fp16/' gpt.ini >half.ini
refuse 1 "device 0: cuda device: model has precision = fp16" \
  pipesim exec --schedule gpipe -p 2 -m 2 --model half.ini --device cuda
refuse 1 "cuda device: no NVIDIA driver here" \
  env PS_EMULATED_DRIVER=0 pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
refuse 1 "cuda device: there is no pipesim-cuda.so in nowhere" \
  env PIPESIM_MODULE_DIR=nowhere pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
echo 'no module' >pipesim-cuda.so
refuse 1 "cuda device: can't be loaded" \
  env PIPESIM_MODULE_DIR=. pipesim exec --schedule gpipe -p 2 -m 2 --model gpt.ini --device cuda
# Times of the emulation mean nothing.
refuse 2 "--sm-shares: devices 0 and 1 hold stages of the same shape (layers=1) and unequal shares" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 -v 2 --device cuda --sm-shares 1,2
refuse 2 "--sm-shares: needs all 2 devices at the same time; --sharing says 1" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 --sharing 1 --device cuda --sm-shares 1,2
refuse 2 "the times of device cuda are not worth measuring" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 -v 1 --device cuda --sm-shares 1,2
refuse 2 "the times of device cuda are not worth measuring" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 --device cuda
finish
