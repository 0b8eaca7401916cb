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
refuse 2 "the times of device cuda are not worth measuring" \
  pipesim calib run --db costs.db --profile none --model gpt.ini -p 2 --device cuda
finish
