#!/bin/bash
# A dense model: variables, arrays, a function, a default and a sum.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
CHECKPOINT_PATH=$1
TP=2
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr $MASTER_ADDR
)
GPT_ARGS="
    --num-layers 32 \
    --hidden-size 4096 \
    --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 128256
"
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size ${TP}   # within a node
	--pipeline-model-parallel-size 4
	--num-layers-per-virtual-pipeline-stage 4
    --sequence-parallel
)
TRAIN=(--micro-batch-size 1 --global-batch-size $((16 * 8)) --bf16 --lr 3e-4 --train-iters 1000
  --use-distributed-optimizer --overlap-grad-reduce --recompute-granularity full --recompute-method uniform --recompute-num-layers 1)
launch() {
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_ARGS} ${MODEL_PARALLEL_ARGS[@]} "${TRAIN[@]}" --save $CHECKPOINT_PATH 2>&1 | tee log
}
launch
