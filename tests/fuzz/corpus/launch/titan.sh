#!/usr/bin/bash
# torchtitan 0.3
NGPU=${NGPU:-"8"}
torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" --local-ranks-filter 0 --role rank --tee 3 \
-m torchtitan.train --module llama3 --config llama3_8b \
  --parallelism.pipeline_parallel_degree 4 --parallelism.data_parallel_shard_degree 2 \
  --parallelism.pipeline_parallel_schedule 1F1B \
  --training.local_batch_size 8 --training.seq_len 8192 --training.disable_cuda_graphs \
  activation_checkpoint:full
