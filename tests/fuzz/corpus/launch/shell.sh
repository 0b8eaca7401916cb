#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
MODEL=${1:-8B}; : ${TP:=2}
case $MODEL in
  7B|8*) LAYERS=32; HIDDEN=$((32 * 128)) ;;
  (70B) LAYERS=80 ;;
  *) echo unknown; exit 1 ;;
esac
if [[ -z "$PP" && $TP -ge 2 ]]; then PP=4; elif [ "$X" = 1 ]; then PP=8; else PP=${LIST[1]}; fi
LIST=(1 2 4) # "a" ( b
for i in 1 2; do N=$(expr $i \* 2); done
while [ $# -gt 0 ]; do shift; done
function args() {
  ARGS+=(--num-layers "$1" --hidden-size ${2%x} --micro-batch-size ${#LIST[@]})
}
args $LAYERS ${HIDDEN}x
[ "$DEBUG" = 1 ] && ARGS+=(--bf16) || true
cat <<EOT > ds.json
{ "train_batch_size": $((8 * N)), "zero_optimization": { "stage": ${ZERO:-1} }, "x": "$(date)" }
EOT
CMD="torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 pretrain_gpt.py ${ARGS[*]} \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size=$PP --num-attention-heads ${MODEL/B/}"
echo "$CMD"; (( TP > 1 )) && CMD+=' --sequence-parallel'
eval $CMD 2>&1 | tee log.txt
srun bash -c "$CMD --node-rank \$SLURM_PROCID --vocab-size ${V:+3}2000 --seq-length ${MODEL:0:1}192"
