#!/bin/bash
#SBATCH --nodes=16
# A mixture of experts under Slurm: a string of options, an array that grows, bash -c.
set -euo pipefail
NNODES=16; export GPUS=8
EP=${EP:-8}
if [ -n "${DEBUG:-}" ]; then
    LOG_LEVEL=debug
fi
MODEL_ARGS=(
    --use-mcore-models
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 4096 --max-position-embeddings 32768
    --position-embedding-type rope --normalization RMSNorm --swiglu
    --untie-embeddings-and-output-weights --disable-bias-linear
    --attention-dropout 0.0 --hidden-dropout 0.0
    --tokenizer-type NullTokenizer --vocab-size 32000
)
MODEL_ARGS+=(--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 14336
             --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
             --moe-grouped-gemm --moe-token-dispatcher-type alltoall)
OPTIONS=" \
    --micro-batch-size 1 \
    --global-batch-size 1024 \
    --bf16 --overlap-grad-reduce --overlap-param-gather --use-distributed-optimizer \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --expert-model-parallel-size=${EP} \
    --num-layers-per-virtual-pipeline-stage 2 --sequence-parallel \
    --recompute-granularity selective --recompute-modules core_attn moe_act \
    --log-level $LOG_LEVEL"
srun -N ${NNODES} --label bash -c "torchrun --nnodes $NNODES --nproc-per-node $GPUS pretrain_gpt.py ${MODEL_ARGS[*]} $OPTIONS" > out 2>&1
