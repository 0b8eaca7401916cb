#!/bin/bash
# Conditions that are known, one that is not and does not count, a here-document.
SIZE=8b
PREC=fp8
TP=1
if [ "$SIZE" = 70b ]; then
  L=80; H=8192
  if [ $TP -gt 1 ]; then echo --a --b --c --d --e --f --g --h --i --j --k --l --m; fi
elif [[ $SIZE == "8b" ]]; then
  L=32; H=4096
else
  exit 1
fi
if [ $PREC = "fp8" ]; then
  EXTRA=(--fp8-format hybrid)
else
  EXTRA=()
fi
if [ -n "$DEBUG" ] && [ 1 = 1 ]; then LOG=1; fi
[ -z "$X" ] && TP=2
cat <<EOT
--tensor-model-parallel-size 9 --a --b --c --d --e --f --g --h --i --j --k --l
EOT
torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers $L --hidden-size $H --num-attention-heads 32 --vocab-size 128256 --seq-length 4096 --bf16 "${EXTRA[@]}" \
 --micro-batch-size 1 --global-batch-size 64 --log-interval $LOG --tensor-model-parallel-size ${T:-2} "$@"
