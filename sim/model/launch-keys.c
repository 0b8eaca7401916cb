/* launch-keys.c - what the keys of frameworks are to pipesim: one table; the facts that a file states by it; and the
 * model that Megatron-LM's arguments define. */
#include "launch-text.h"
#include "model-private.h"

#include "base/text.h"

#include <string.h>

/* A key is here by the name of Megatron-LM's argument, by those of older releases, and by the one of its log where that
 * is another. YAML has the same names below the sections of a configuration. Keys with a point are of torchtitan, and
 * those with "zero_optimization." and the like of DeepSpeed. A new key is a new row. */
static const PsKeyRow rows[] = {
  /* GPUs */
  { "nproc_per_node num_gpus gpus_per_node num_gpus_per_node trainer.devices", PS_KEY_SETTING, "gpus-per-node", NULL },
  { "nnodes num_nodes", PS_KEY_SETTING, "nodes", NULL },
  { "world_size", PS_KEY_SETTING, "gpus", NULL },
  { "program _target_", PS_KEY_SETTING, "program", NULL },
  { "tensor_model_parallel_size model_parallel_size parallelism.tensor_parallel_degree training.tensor_parallel_degree "
    "num_mp",
    PS_KEY_SETTING, "tensor", NULL },
  { "pipeline_model_parallel_size parallelism.pipeline_parallel_degree experimental.pipeline_parallel_degree num_pp",
    PS_KEY_SETTING, "devices", NULL },
  { "context_parallel_size parallelism.context_parallel_degree experimental.context_parallel_degree", PS_KEY_SETTING,
    "context", NULL },
  { "cp_comm_type parallelism.context_parallel_rotate_method", PS_KEY_SETTING, "cp-comm-type",
    "allgather=all_gather alltoall=p2p" },
  { "expert_model_parallel_size parallelism.expert_parallel_degree", PS_KEY_SETTING, "experts", NULL },
  { "data_parallel_size num_dp", PS_KEY_SETTING, "replicas", NULL },
  { "parallelism.data_parallel_replicate_degree training.data_parallel_replicate_degree", PS_KEY_SETTING,
    "replicas.replicated", NULL },
  { "parallelism.data_parallel_shard_degree training.data_parallel_shard_degree training.data_parallel_degree",
    PS_KEY_SETTING, "zero.sharded", NULL },
  { "parallelism.fsdp_reshard_after_forward", PS_KEY_SETTING, "zero.reshard", "default=" },
  { "use_tp_pp_dp_mapping", PS_KEY_SETTING, "adjacent-replicas.mapping", "=true" },

  /* Batches */
  { "micro_batch_size train_micro_batch_size_per_gpu parallelism.pipeline_parallel_microbatch_size", PS_KEY_SETTING,
    "microbatch-size", NULL },
  { "global_batch_size train_batch_size training.global_batch_size", PS_KEY_SETTING, "global-batch", "-1=" },
  { "training.local_batch_size training.batch_size", PS_KEY_SETTING, "microbatches.local", NULL },
  { "gradient_accumulation_steps experimental.pipeline_parallel_microbatches", PS_KEY_SETTING, "microbatches", NULL },
  { "seq_length training.seq_len model.encoder_seq_length", PS_KEY_SETTING, "sequence", NULL },

  /* Stages and schedule */
  { "num_layers_per_virtual_pipeline_stage", PS_KEY_SETTING, "chunks.layers", NULL },
  { "virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank", PS_KEY_SETTING, "chunks", NULL },
  { "pipeline_model_parallel_layout", PS_KEY_SETTING, "layout", NULL },
  { "decoder_first_pipeline_num_layers num_layers_in_first_pipeline_stage", PS_KEY_SETTING, "layout.first", NULL },
  { "decoder_last_pipeline_num_layers num_layers_in_last_pipeline_stage", PS_KEY_SETTING, "layout.last", NULL },
  { "account_for_embedding_in_pipeline_split", PS_KEY_SETTING, "layout.embedding", "=true" },
  { "account_for_loss_in_pipeline_split", PS_KEY_SETTING, "layout.loss", "=true" },
  { "microbatch_group_size_per_virtual_pipeline_stage microbatch_group_size_per_vp_stage", PS_KEY_SETTING, "group",
    NULL },
  { "overlap_moe_expert_parallel_comm", PS_KEY_SETTING, "schedule.overlaps", "=true" },
  { "delay_wgrad_compute", PS_KEY_SETTING, "schedule.delays-w", "=true" },
  { "defer_embedding_wgrad_compute", PS_KEY_SETTING, "defer-head.defers", "=true" },
  { "wgrad_deferral_limit", PS_KEY_SETTING, "defer-head", NULL },
  { "parallelism.pipeline_parallel_schedule experimental.pipeline_parallel_schedule", PS_KEY_SETTING, "schedule.torch",
    NULL },
  { "parallelism.module_fqns_per_model_part", PS_KEY_SETTING, "layout.parts", NULL },
  { "parts", PS_KEY_SETTING, "layout.cuts", NULL },
  { "parallelism.pipeline_parallel_schedule_csv", PS_KEY_SETTING, "schedule", NULL },
  { "parallelism.pipeline_parallel_layers_per_stage", PS_KEY_SETTING, "chunks.layers", NULL },
  { "parallelism.pipeline_parallel_first_stage_less_layers", PS_KEY_SETTING, "layout.first-less", NULL },
  { "parallelism.pipeline_parallel_last_stage_less_layers", PS_KEY_SETTING, "layout.last-less", NULL },

  /* Number formats */
  { "bf16 bf16.enabled", PS_KEY_SETTING, "precision.bf16", "=true" },
  { "fp16 fp16.enabled", PS_KEY_SETTING, "precision.fp16", "=true" },
  { "fp8_format fp8", PS_KEY_SETTING, "precision.fp8", NULL },
  { "fp8_recipe", PS_KEY_SETTING, "precision.recipe", NULL },
  { "fp4_format fp4", PS_KEY_SETTING, "precision.fp4", NULL },
  { "model.converters", PS_KEY_SETTING, "precision.converters", "[]=" },
  { "mixed_precision", PS_KEY_SETTING, "precision",
    "bf16_mixed=bf16 fp16_mixed=fp16 bf16_with_fp8_delayed_scaling_mixed=fp8 fp16_with_fp8_delayed_scaling_mixed=fp8 "
    "bf16_with_fp8_current_scaling_mixed=fp8 nemotron_h_bf16_with_fp8_current_scaling_mixed=fp8 "
    "nanov2_bf16_with_fp8_current_scaling_mixed=fp8 bf16_with_fp8_subchannel_scaling_mixed=fp8-block "
    "fp16_with_fp8_subchannel_scaling_mixed=fp8-block bf16_with_mxfp8_mixed=mxfp8 fp16_with_mxfp8_mixed=mxfp8 "
    "bf16_with_nvfp4_mixed=nvfp4 fp16_with_nvfp4_mixed=nvfp4" },
  { "training.mixed_precision_param", PS_KEY_SETTING, "precision.bf16", "bfloat16=true float32=false" },
  { "trainer.precision", PS_KEY_SETTING, "precision",
    "bf16-mixed=bf16 bf16-true=bf16 16=fp16 16-mixed=fp16 32=fp32 32-true=fp32" },
  { "accumulate_allreduce_grads_in_fp32", PS_KEY_HARMLESS, NULL, NULL },
  { "grad_reduce_in_bf16", PS_KEY_SETTING, "main-grads-dtype.bf16", "=true" },
  { "use_precision_aware_optimizer", PS_KEY_SETTING, "precise", "=true" },
  { "main_grads_dtype data_types.grad_accum_dtype model.optim.grad_sync_dtype", PS_KEY_SETTING, "main-grads-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16" },
  { "main_params_dtype", PS_KEY_SETTING, "main-params-dtype", "torch.float32=fp32 torch.float16=fp16" },
  { "exp_avg_dtype", PS_KEY_SETTING, "exp-avg-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8" },
  { "exp_avg_sq_dtype", PS_KEY_SETTING, "exp-avg-sq-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8" },
  { "fp8_param_gather fp8_param fp4_param_gather fp4_param", PS_KEY_SETTING, "fp8-param-gather", "=true" },
  { "optimizer", PS_KEY_SETTING, "optimizer", "dist_muon=muon" },
  { "optimizer.implementation", PS_KEY_SETTING, "optimizer-implementation", NULL },

  /* What is kept, sharded, overlapped */
  { "recompute_granularity activations_checkpoint_granularity", PS_KEY_SETTING, "recompute.granularity", NULL },
  { "recompute_activations", PS_KEY_SETTING, "recompute.granularity", "=selective" },
  { "recompute_method", PS_KEY_SETTING, "recompute.method", NULL },
  { "recompute_num_layers", PS_KEY_SETTING, "recompute.layers", NULL },
  { "recompute_modules", PS_KEY_SETTING, "recompute.modules", NULL },
  { "checkpoint_activations", PS_KEY_SETTING, "recompute.granularity", "=full" },
  { "activations_checkpoint_method", PS_KEY_SETTING, "recompute.granularity", "uniform=full" },
  { "activations_checkpoint_num_layers checkpoint_num_layers", PS_KEY_SETTING, "recompute.layers", NULL },
  { "activation_checkpoint.mode", PS_KEY_SETTING, "recompute.granularity", "none=" },
  { "activation_checkpoint_interval", PS_KEY_SETTING, "recompute.interval", NULL },
  { "fine_grained_activation_offloading", PS_KEY_SETTING, "offload-modules.offloads", "=true" },
  { "offload_modules", PS_KEY_SETTING, "offload-modules", NULL },
  { "model.optim.name", PS_KEY_SETTING, "zero.distributed-optimizer",
    "distributed_fused_adam=true mcore_distributed_optim=true adam=false fused_adam=false" },
  { "use_distributed_optimizer", PS_KEY_SETTING, "zero.distributed-optimizer", "=true" },
  { "use_megatron_fsdp use_custom_fsdp", PS_KEY_SETTING, "zero.fsdp", "=true" },
  { "data_parallel_sharding_strategy", PS_KEY_SETTING, "zero.strategy", NULL },
  { "deepspeed", PS_KEY_SETTING, "deepspeed", "=true" },
  { "no_pipeline_parallel", PS_KEY_SETTING, "devices", "=1" },
  { "zero_stage zero_optimization.stage", PS_KEY_SETTING, "zero", NULL },
  { "use_torch_fsdp2", PS_KEY_SETTING, "zero", "=3 true=3 false=" },
  { "overlap_grad_reduce model.optim.overlap_grad_sync", PS_KEY_SETTING, "reduce.overlap", "=true" },
  { "overlap_param_gather model.optim.overlap_param_sync", PS_KEY_SETTING, "overlap-param-gather", "=true" },
  { "tp_comm_overlap ub_tp_comm_overlap", PS_KEY_SETTING, "tp-comm-overlap", "=true" },
  { "moe_token_dispatcher_type", PS_KEY_SETTING, "moe-token-dispatcher-type", NULL },
  { "moe_flex_dispatcher_backend", PS_KEY_SETTING, "moe-token-dispatcher-type.backend", NULL },
  { "moe_enable_deepep", PS_KEY_SETTING, "moe-token-dispatcher-type.backend", "=deepep true=deepep false=" },
  { "cuda_graph_impl", PS_KEY_SETTING, "cuda-graphs.impl", "none=" },
  { "cuda_graph_scope", PS_KEY_SETTING, "cuda-graphs.scope", NULL },
  { "cross_entropy_loss_fusion", PS_KEY_SETTING, "loss.fusion", "=true" },
  { "cross_entropy_fusion_impl", PS_KEY_SETTING, "loss.impl", NULL },
  { "model.name", PS_KEY_SETTING, "titan-module", NULL },
  { "module", PS_KEY_SETTING, "titan-module", NULL },
  { "model.flavor", PS_KEY_SETTING, "titan-flavor", NULL },
  { "config", PS_KEY_SETTING, "titan-config", NULL },
  { "job.config_file", PS_KEY_SETTING, "titan-file", NULL },

  /* The model */
  { "num_layers encoder_num_layers", PS_KEY_MODEL, "layers", NULL },
  { "hidden_size", PS_KEY_MODEL, "hidden", NULL },
  { "ffn_hidden_size", PS_KEY_MODEL, "feed_forward", NULL },
  { "num_attention_heads", PS_KEY_MODEL, "heads", NULL },
  { "kv_channels", PS_KEY_MODEL, "head_size", NULL },
  { "group_query_attention", PS_KEY_SHAPE, "grouped", "=true" },
  { "num_query_groups", PS_KEY_SHAPE, "groups", NULL },
  { "num_key_value_heads", PS_KEY_SHAPE, "kv-heads", NULL },
  { "multi_latent_attention", PS_KEY_SHAPE, "latent", "=true" },
  { "q_lora_rank", PS_KEY_MODEL, "q_rank", NULL },
  { "kv_lora_rank", PS_KEY_MODEL, "kv_rank", NULL },
  { "qk_head_dim", PS_KEY_MODEL, "nope_size", NULL },
  { "qk_pos_emb_head_dim", PS_KEY_MODEL, "rope_size", NULL },
  { "v_head_dim", PS_KEY_MODEL, "value_size", NULL },
  { "qk_layernorm", PS_KEY_MODEL, "qk_norm", "=true" },
  { "attention_backend", PS_KEY_MODEL, "flash_attention",
    "unfused=false AttnBackend.unfused=false flash=true fused=true auto=true local=false AttnBackend.flash=true "
    "AttnBackend.fused=true AttnBackend.auto=true AttnBackend.local=false" },
  { "vocab_size padded_vocab_size pad_vocab_size_to", PS_KEY_MODEL, "vocabulary", NULL },
  { "tokenizer_type patch_tokenizer_type", PS_KEY_SETTING, "tokenizer-type", NULL },
  { "tokenizer_model tokenizer_name_or_path model.tokenizer.type", PS_KEY_SETTING, "tokenizer-model", NULL },
  { "merge_file", PS_KEY_SETTING, "merge-file", NULL },
  { "extra_vocab_size", PS_KEY_SETTING, "further-words", NULL },
  { "make_vocab_size_divisible_by", PS_KEY_SETTING, "vocabulary-multiple", NULL },
  { "max_position_embeddings", PS_KEY_SETTING, "positions", NULL },
  { "untie_embeddings_and_output_weights", PS_KEY_MODEL, "tied", "=false true=false false=true" },
  { "share_embeddings_and_output_weights", PS_KEY_MODEL, "tied", "=true" },
  { "swiglu", PS_KEY_SHAPE, "swiglu", "=true" },
  { "glu_activation", PS_KEY_SHAPE, "swiglu", "=true" },
  { "embed_layernorm", PS_KEY_MODEL, "embedding_norm", "=true" },
  { "gated_linear_unit", PS_KEY_SHAPE, "swiglu", "=true" },
  { "model.activation", PS_KEY_SHAPE, "swiglu",
    "swiglu=true fast-swiglu=true geglu=true fast-geglu=true reglu=true fast-reglu=true gelu=false "
    "squared-relu=false" },
  { "squared_relu", PS_KEY_SHAPE, "squared-relu", "=true" },
  { "attention_output_gate", PS_KEY_MODEL, "attention_gate", "=true" },
  { "mamba_num_heads", PS_KEY_MODEL, "mamba_heads", NULL },
  { "mamba_head_dim", PS_KEY_MODEL, "mamba_head_size", NULL },
  { "mamba_state_dim", PS_KEY_MODEL, "mamba_state", NULL },
  { "mamba_num_groups", PS_KEY_MODEL, "mamba_groups", NULL },
  { "linear_num_key_heads", PS_KEY_MODEL, "delta_key_heads", NULL },
  { "linear_key_head_dim", PS_KEY_MODEL, "delta_key_size", NULL },
  { "linear_num_value_heads", PS_KEY_MODEL, "delta_value_heads", NULL },
  { "linear_value_head_dim", PS_KEY_MODEL, "delta_value_size", NULL },
  { "experimental_attention_variant", PS_KEY_SHAPE, "variant", NULL },
  { "dsa_indexer_n_heads", PS_KEY_MODEL, "index_heads", NULL },
  { "dsa_indexer_head_dim", PS_KEY_MODEL, "index_size", NULL },
  { "dsa_indexer_topk", PS_KEY_MODEL, "index_top", NULL },
  { "moe_latent_size", PS_KEY_MODEL, "expert_latent", NULL },
  { "num_experts num_moe_experts", PS_KEY_MODEL, "experts_of_layer", "1=" },
  { "moe_router_topk", PS_KEY_MODEL, "active_experts", NULL },
  { "moe_ffn_hidden_size", PS_KEY_MODEL, "expert_feed_forward", NULL },
  { "moe_shared_expert_intermediate_size", PS_KEY_MODEL, "shared_feed_forward", NULL },
  { "moe_shared_expert_gate", PS_KEY_MODEL, "shared_gate", "=true" },
  { "moe_expert_capacity_factor", PS_KEY_SHAPE, "capacity", NULL },
  { "moe_pad_expert_input_to_capacity", PS_KEY_SHAPE, "padded", "=true" },
  { "moe_layer_freq", PS_KEY_SHAPE, "expert-layers", NULL },
  { "linear_attention_freq", PS_KEY_SHAPE, "linear-layers", NULL },
  { "window_attn_skip_freq", PS_KEY_SHAPE, "full-layers", NULL },
  { "window_size", PS_KEY_SHAPE, "window", NULL },
  { "softmax_type", PS_KEY_MODEL, "sinks", "learnable=true vanilla=false off-by-one=false" },
  { "normalization position_embedding_type", PS_KEY_SHAPE, "rotary", "RMSNorm= LayerNorm= learned_absolute=" },
  { "disable_bias_linear", PS_KEY_SHAPE, "no-biases", "=true" },
  { "add_bias_linear model.bias", PS_KEY_SHAPE, "no-biases", "=false true=false false=true" },
  { "add_qkv_bias", PS_KEY_SHAPE, "qkv-bias", "=true" },
  { "mtp_num_layers", PS_KEY_MODEL, "mtp", NULL },
  { "hybrid_layer_pattern hybrid_override_pattern", PS_KEY_SHAPE, "pattern", NULL },
  { "sequence_parallel", PS_KEY_SETTING, "sequence-parallel", "=true" },
  { "attention_dropout hidden_dropout", PS_KEY_SETTING, "dropout", NULL },

  /* Not modelled */
  { "rampup_batch_size", PS_KEY_MATTERS, "the batch size grows; the last one is predicted", NULL },
  { "hierarchical_context_parallel_sizes", PS_KEY_MATTERS, "contexts exchange in one step here", NULL },
  { "optimizer_cpu_offload zero_optimization.offload_optimizer.device", PS_KEY_MATTERS,
    "the optimizer's state stays on the GPU here", NULL },
  { "zero_optimization.offload_param.device", PS_KEY_MATTERS, "weights stay on the GPU here", NULL },
  { "cpu_offloading", PS_KEY_MATTERS, "give --offload RATIO", NULL },
  { "num_distributed_optimizer_instances", PS_KEY_MATTERS, "the state is spread over all replicas here", "1=" },
  { "pipeline_model_parallel_split_rank", PS_KEY_MATTERS, "encoders with stages of their own are not known", NULL },
  { "hybrid_attention_ratio hybrid_mlp_ratio", PS_KEY_MATTERS,
    "layers are attention and forwards here; give --model, or the pattern of the layers", NULL },
  { "experimental.pipeline_parallel_split_points", PS_KEY_MATTERS, "give --layout", NULL },
  { "lora_rank peft", PS_KEY_MATTERS, "all weights are trained here", NULL },
  { "freeze_LM freeze_ViT", PS_KEY_MATTERS, "all weights are trained here", NULL },
  { "compile.enable training.compile", PS_KEY_MATTERS, "kernels are not fused by a compiler here", NULL },
  { "float8.enable_fsdp_float8_all_gather quantize.linear.float8.enable_fsdp_float8_all_gather", PS_KEY_MATTERS,
    "weights are gathered in bf16 here", NULL },
  { "ds_sequence_parallel_size sequence_parallel_size", PS_KEY_MATTERS, "sequences are not shared that way here",
    "1=" },
  { "decoder_num_layers language_model_type vision_model_type encoder_seq_length", PS_KEY_MATTERS,
    "the model is predicted as its decoder alone", NULL },
  { "expert_tensor_parallel_size parallelism.expert_tensor_parallel_degree", PS_KEY_SETTING, "expert-tensor", NULL },

  /* Harmless: data, schedule of learning, files, logs, kernels that all have */
  { "fp4_recipe high_priority_stream_groups moe_grouped_gemm moe_router_pre_softmax ckpt_format spec "
    "reuse_grad_buf_for_mxfp8_param_ag "
    "moe_router_dtype moe_router_force_load_balancing "
    "moe_router_load_balancing_type moe_aux_loss_coeff moe_z_loss_coeff moe_permute_fusion moe_router_fusion "
    "moe_router_score_function moe_router_enable_expert_bias moe_router_bias_update_rate moe_router_num_groups "
    "moe_router_group_topk moe_router_topk_scaling_factor moe_per_layer_logging moe_shared_expert_overlap "
    "moe_token_drop_policy mtp_loss_scaling_factor transformer_impl use_mcore_models use_flash_attn "
    "no_masked_softmax_fusion masked_softmax_fusion no_bias_swiglu_fusion bias_swiglu_fusion no_bias_gelu_fusion "
    "bias_dropout_fusion no_bias_dropout_fusion no_rope_fusion apply_rope_fusion attention_softmax_in_fp32 "
    "gradient_accumulation_fusion no_gradient_accumulation_fusion apply_layernorm_1p norm_epsilon layernorm_epsilon "
    "rotary_base rotary_percent rotary_seq_len_interpolation_factor use_rotary_position_embeddings rope_type "
    "use_rope_scaling rope_scaling_factor mscale mscale_all_dim rotary_scaling_factor beta_fast beta_slow "
    "no_position_embedding te_rng_tracker manual_gc manual_gc_interval "
    "distributed_backend distributed_timeout_minutes master_addr master_port node_rank rdzv_id rdzv_backend "
    "rdzv_endpoint rdzv_conf max_restarts tee log_dir role hostfile local_addr local_ranks_filter no_python "
    "async_tensor_model_parallel_allreduce exit_on_missing_checkpoint enable_experimental calculate_per_token_loss "
    "ddp_bucket_size ddp_num_buckets ddp_average_in_collective check_for_nan_in_loss_and_grad "
    "no_check_for_nan_in_loss_and_grad rerun_mode use_pytorch_profiler align_grad_reduce align_param_gather "
    "no_create_attention_mask_in_dataloader init_method_std init_method_xavier_uniform use_fused_weighted_squared_relu "
    "cross_entropy_loss_fusion_impl kitchen_config_file fp8_margin fp8_interval fp8_amax_history_len "
    "fp8_amax_compute_algo first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 "
    "keep_fp8_transpose_cache keep_fp8_weight_transpose_cache cuda_graph_warmup_steps is_hybrid_model "
    "attention_dropout_p mock_data data_impl deepspeed_activation_checkpointing pp_partition_method "
    "abort_on_unmet_fused_kernel_constraints valid_weighted_split_paths_path train_weighted_split_paths_path "
    "train_weighted_split_paths valid_weighted_split_paths test_weighted_split_paths kill_switch_path norm_target_loss "
    "use_checkpoint_args reset_progress dataloader_save zero_allow_untested_optimizer universal_checkpoint "
    "sync_tp_duplicated_parameters DDP_impl no_query_key_layer_scaling force_multi skip_train_iteration_range "
    "partition_activations synchronize_each_layer contigious_checkpointing train_tokens lr_decay_tokens "
    "lr_warmup_tokens no_async_tensor_model_parallel_allreduce redirects log_level log_level_replica membind "
    "vocab_extra_ids eval_only no_log_loss_scale_to_tensorboard exit_signal_handler codecarbon_dir use_te label "
    "decoder_seq_length batch_size task valid_data train_data epochs prompt_path special_tokens patch_dim "
    "deepspeed_mpi no_load_lr_state override_lr_scheduler override_opt_param_scheduler hysteresis "
    "moe_loss_coeff moe_train_capacity_factor moe_eval_capacity_factor moe_min_capacity",
    PS_KEY_HARMLESS, NULL, NULL },
  { "train_iters train_samples exit_interval exit_duration_in_mins lr min_lr lr_decay_style lr_decay_iters "
    "lr_decay_samples lr_warmup_iters lr_warmup_samples lr_warmup_fraction lr_warmup_init lr_wsd_decay_style "
    "lr_wsd_decay_iters lr_wsd_decay_samples weight_decay weight_decay_incr_style start_weight_decay end_weight_decay "
    "decoupled_lr decoupled_min_lr empty_unused_memory_level clip_grad adam_beta1 adam_beta2 adam_eps muon_momentum "
    "override_opt_param_scheduler "
    "use_checkpoint_opt_param_scheduler "
    "seed loss_scale initial_loss_scale min_loss_scale loss_scale_window data_path train_data_path valid_data_path "
    "test_data_path data_cache_path data_args_path per_split_data_args_path split vocab_file "
    "tiktoken_pattern tiktoken_num_special_tokens num_workers dataloader_type "
    "reset_position_ids reset_attention_mask eod_mask_loss no_mmap_bin_files num_dataset_builder_threads "
    "eval_iters eval_interval save load save_interval no_save_optim no_load_optim no_save_rng no_load_rng finetune "
    "async_save use_dist_ckpt dist_ckpt_format auto_detect_ckpt_format ckpt_fully_parallel_save "
    "ckpt_fully_parallel_load ckpt_assume_constant_structure dist_ckpt_strictness pretrained_checkpoint "
    "use_persistent_ckpt_worker log_interval log_throughput log_timers_to_tensorboard log_params_norm "
    "log_num_zeros_in_grad "
    "log_progress log_memory_to_tensorboard log_validation_ppl_to_tensorboard log_world_size_to_tensorboard "
    "log_loss_scale_to_tensorboard log_learning_rate_to_tensorboard log_batch_size_to_tensorboard logging_level "
    "tensorboard_dir tensorboard_queue_size tensorboard_log_interval timing_log_level timing_log_option wandb_project "
    "wandb_exp_name wandb_save_dir wandb_entity profile profile_step_start profile_step_end profile_ranks "
    "record_memory_history memory_snapshot_path one_logger_project one_logger_run_name skip_train no_one_logger "
    "enable_one_logger attention_dropout_rng job_name deepspeed_config",
    PS_KEY_HARMLESS, NULL, NULL },
  { "job. profiling. metrics. checkpoint. comm. debug. validation. lr_scheduler. fault_tolerance. experimental. "
    "tokenizer. logger. dataset. scheduler. rng. dist. rerun_state_machine. straggler. nvrx_straggler. "
    "checkpoint_config. gradient_clipping optimizer.params. optimizer.type scheduler. wall_clock_breakdown "
    "steps_per_print prescale_gradients flops_profiler. tensorboard. activation_checkpointing. comms_logger. "
    "csv_monitor. "
    "zero_optimization. bf16. fp16. zero_allow_untrusted_optimizer communication_data_type data_types. aio. "
    "optimizer.name optimizer.lr optimizer.eps optimizer.beta1 optimizer.beta2 optimizer.weight_decay "
    "optimizer.early_step_in_backward training.steps training.dataset training.dataset_path training.max_norm "
    "training.seed training.deterministic training.gc_freq training.gc_debug training.mixed_precision_reduce "
    "training.disable_cuda_graphs training.dtype model.hf_assets_path model.tokenizer_path "
    "model.norm_type optimizer.fused "
    "model.print_after_conversion "
    "parallelism.disable_loss_parallel parallelism.enable_async_tensor_parallel "
    "parallelism.enable_compiled_autograd activation_checkpoint. "
    "compile. float8. quantize. memory_estimation.",
    PS_KEY_HARMLESS, NULL, NULL },
};

/* What the functions of torchtitan's config_registry.py say of a run, apart from the model. */
static const struct {
  const char *config;
  const char *keys;
} titan_configs[] = {
  { "llama3_8b", "training.local_batch_size=1 training.seq_len=8192" },
  { "llama3_70b", "training.seq_len=8192 parallelism.tensor_parallel_degree=8 activation_checkpoint.mode=full" },
  { "llama3_405b", "training.local_batch_size=2 training.seq_len=8192 parallelism.tensor_parallel_degree=8 "
                   "activation_checkpoint.mode=full" },
  { "deepseek_v3_16b", "training.local_batch_size=4 training.seq_len=4096 parallelism.expert_parallel_degree=8 "
                       "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
  { "deepseek_v3_671b", "training.local_batch_size=4 training.seq_len=4096 parallelism.expert_parallel_degree=2 "
                        "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
  { "gpt_oss_20b", "training.local_batch_size=1 training.seq_len=8192 activation_checkpoint.mode=full" },
  { "gpt_oss_120b", "training.local_batch_size=1 training.seq_len=8192 activation_checkpoint.mode=full" },
  { "qwen3_14b", "training.local_batch_size=4 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "qwen3_30b_a3b", "training.local_batch_size=2 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "qwen3_32b", "training.local_batch_size=2 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "llama3_debugmodel", "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
};

void ps_launch_facts_free (PsLaunchFacts *facts)
{
  if (facts == NULL)
    return;
  g_clear_pointer (&facts->keys, g_ptr_array_unref);
  g_hash_table_unref (facts->values);
  g_hash_table_unref (facts->sources);
  g_hash_table_unref (facts->unknown);
  g_ptr_array_unref (facts->matters);
  g_ptr_array_unref (facts->strange);
  g_ptr_array_unref (facts->words);
  g_free (facts);
}

/* Rows by the names of their keys; of two with one name the first. */
static GHashTable *rows_by_name (void)
{
  static GHashTable *table;
  static gsize once = 0;

  if (g_once_init_enter (&once)) {
    table = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = G_N_ELEMENTS (rows); i-- > 0;) {
      g_auto (GStrv) names = g_strsplit (rows[i].keys, " ", -1);

      for (char **name = names; *name != NULL; name++)
        g_hash_table_replace (table, g_strdup (*name), (gpointer)&rows[i]);
    }
    g_once_init_leave (&once, 1);
  }
  return table;
}

/* The row of a key; "metrics." has all keys that begin with it. */
static const PsKeyRow *find_row (const char *key)
{
  GHashTable *table = rows_by_name ();
  const PsKeyRow *row = g_hash_table_lookup (table, key), *section = NULL;

  for (const char *dot = strchr (key, '.'); row == NULL && dot != NULL; dot = strchr (dot + 1, '.')) {
    g_autofree char *begin = g_strndup (key, (gsize)(dot + 1 - key));
    const PsKeyRow *found = g_hash_table_lookup (table, begin);

    section = found != NULL && (section == NULL || found < section) ? found : section;
  }
  return row != NULL ? row : section;
}

char *ps_launch_key (const char *fact, const char *section)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (const char *name = rows[i].keys; g_strcmp0 (rows[i].fact, fact) == 0 && *name != '\0';
         name += strspn (name, " ")) {
      const gsize n = strcspn (name, " "), dot = strcspn (name, ".");

      if (*section == '\0' ? dot >= n : dot == strlen (section) && strncmp (name, section, dot) == 0)
        return g_strndup (name, n);
      name += n;
    }
  g_return_val_if_reached (NULL);
}

const PsKeyRow *ps_launch_key_row (PsLaunchForm form, const char *key)
{
  const PsKeyRow *row = find_row (key);

  while (form == PS_LAUNCH_YAML && (row == NULL || row->kind == PS_KEY_HARMLESS) && strchr (key, '.') != NULL) {
    key = strchr (key, '.') + 1;
    const PsKeyRow *inner = find_row (key);
    row = inner != NULL ? inner : row;
  }
  return row;
}

static gboolean knows (const char *key)
{
  return find_row (key) != NULL;
}

GPtrArray *ps_launch_keys (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  return ps_launch_form_keys (where, text, form, knows, error);
}

/* The value in pipesim's words; NULL: it says nothing. Free with g_free. */
static char *translate (const PsKeyRow *row, const char *value)
{
  for (const char *at = row->values; at != NULL && *at != '\0'; at += strspn (at, " ")) {
    gsize n = strcspn (at, " "), left = strcspn (at, "=");

    if (strlen (value) == left && g_ascii_strncasecmp (at, value, left) == 0)
      return n > left + 1 ? g_strndup (at + left + 1, n - left - 1) : NULL;
    at += n;
  }
  if (g_str_equal (value, "True") || g_str_equal (value, "False"))
    return g_ascii_strdown (value, -1);
  return g_strdup (*value == '\0' ? "true" : value);
}

char *ps_launch_place (const PsLaunchFacts *facts, const PsLaunchKey *key)
{
  return key->line > 0 ? g_strdup_printf ("%s:%u", facts->where, key->line) : g_strdup (facts->where);
}

/* Whether the row says what the key is without a value. */
static gboolean is_flag (const PsKeyRow *row)
{
  return row->values != NULL && (*row->values == '=' || strstr (row->values, " =") != NULL);
}

static void take_key (PsLaunchFacts *facts, PsLaunchKey *key)
{
  const PsKeyRow *row = ps_launch_key_row (facts->form, key->key);

  if (*key->key == '\0') {
    g_ptr_array_add (facts->words, key);
    return;
  }
  if (row == NULL && facts->form != PS_LAUNCH_LOG && facts->form != PS_LAUNCH_YAML)
    g_ptr_array_add (facts->strange, key);
  if (row == NULL || row->kind == PS_KEY_HARMLESS)
    return;
  const gboolean more = key->word && is_flag (row); /* words, not a value */
  const gboolean known = key->unknown == NULL || more;
  if (more && !key->unset)
    g_ptr_array_add (facts->words, key);
  g_autofree char *value = known ? translate (row, more ? "" : key->value) : g_strdup ("");
  gboolean says = value != NULL && !g_str_equal (value, "false") && !g_str_equal (value, "0")
                  && !g_str_equal (value, "none") && !g_str_equal (value, "[]");
  if (row->kind == PS_KEY_MATTERS) {
    if (says)
      g_ptr_array_add (facts->matters, key);
    return;
  }
  if (value == NULL) { /* the last one counts */
    g_hash_table_remove (facts->values, row->fact);
    g_hash_table_remove (facts->unknown, row->fact);
    return;
  }
  g_hash_table_remove (known ? facts->unknown : facts->values, row->fact);
  g_hash_table_insert (facts->sources, (gpointer)row->fact, key);
  if (!known)
    g_hash_table_insert (facts->unknown, (gpointer)row->fact, key);
  else
    g_hash_table_insert (facts->values, (gpointer)row->fact, g_steal_pointer (&value));
}

/* Adds the keys of a file of TOML that the launch names, from here or from the launch's folder. */
static gboolean add_titan_file (const PsLaunchFacts *facts, const char *name, GError **error)
{
  g_autofree char *folder = g_path_get_dirname (facts->where), *beside = g_build_filename (folder, name, NULL);
  const char *path = g_file_test (name, G_FILE_TEST_EXISTS) ? name : beside;
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return FALSE;
  g_autoptr (GPtrArray) keys = ps_launch_keys (path, text, PS_LAUNCH_TOML, error);
  for (guint i = 0; keys != NULL && i < keys->len; i++) {
    const PsLaunchKey *key = keys->pdata[i];

    ps_launch_add_key (facts->keys, g_strdup (key->key), key->value, 0);
  }
  return keys != NULL;
}

/* Adds the keys of the last configuration and of the files that the launch names. */
static gboolean add_titan_config (const PsLaunchFacts *facts, GError **error)
{
  const guint n = facts->keys->len;
  const char *keys = NULL;

  for (guint i = 0; i < n; i++) {
    const PsLaunchKey *key = facts->keys->pdata[i];

    if (g_str_equal (key->key, "job.config_file") && key->unknown == NULL && !add_titan_file (facts, key->value, error))
      return FALSE;
    for (guint k = 0; g_str_equal (key->key, "config") && k < G_N_ELEMENTS (titan_configs); k++)
      if (g_str_equal (key->value, titan_configs[k].config))
        keys = titan_configs[k].keys;
  }
  g_auto (GStrv) words = g_strsplit (keys != NULL ? keys : "", " ", -1);
  for (char **word = words; *word != NULL && **word != '\0'; word++) {
    const gsize length = strcspn (*word, "=");

    ps_launch_add_key (facts->keys, g_strndup (*word, length), *word + length + 1, 0);
  }
  return TRUE;
}

PsLaunchFacts *ps_launch_facts (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (PsLaunchFacts) facts = g_new0 (PsLaunchFacts, 1);

  facts->where = where;
  facts->form = form;
  facts->values = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  facts->sources = g_hash_table_new (g_str_hash, g_str_equal);
  facts->unknown = g_hash_table_new (g_str_hash, g_str_equal);
  facts->matters = g_ptr_array_new ();
  facts->strange = g_ptr_array_new ();
  facts->words = g_ptr_array_new ();
  facts->keys = ps_launch_keys (where, text, form, error);
  if (facts->keys == NULL)
    return NULL;
  const guint n = facts->keys->len;
  if (!add_titan_config (facts, error))
    return NULL;
  for (guint i = n; i < facts->keys->len; i++)
    take_key (facts, facts->keys->pdata[i]);
  for (guint i = 0; i < n; i++)
    take_key (facts, facts->keys->pdata[i]);
  return g_steal_pointer (&facts);
}

const char *ps_launch_key_reason (const char *key)
{
  return ps_launch_key_row (PS_LAUNCH_YAML, key)->fact;
}

gboolean ps_launch_known (const PsLaunchFacts *facts, const char *fact, GError **error)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->unknown, fact);

  return key == NULL || ps_refuse_at (ps_launch_place (facts, key), error, "%s: %s", key->key, key->unknown);
}

const char *ps_launch_fact (const PsLaunchFacts *facts, const char *fact)
{
  return g_hash_table_lookup (facts->values, fact);
}

gboolean ps_launch_is (const PsLaunchFacts *facts, const char *fact)
{
  const char *value = ps_launch_fact (facts, fact);

  return value != NULL && !g_str_equal (value, "false") && !g_str_equal (value, "0");
}

/* Fails about the key of a fact. */
static gboolean G_GNUC_PRINTF (4, 5)
    refuse_fact (GError **error, const PsLaunchFacts *facts, const char *fact, const char *format, ...)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->sources, fact);
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *problem = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (key == NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", facts->where, fact, problem);
  return ps_refuse_at (ps_launch_place (facts, key), error, "%s: %s", key->key, problem);
}

gint64 ps_launch_count (const PsLaunchFacts *facts, const char *fact, gint64 otherwise, GError **error)
{
  const char *value = ps_launch_fact (facts, fact);
  char *end;

  if (*error != NULL || !ps_launch_known (facts, fact, error) || value == NULL)
    return otherwise;
  gint64 count = g_ascii_strtoll (value, &end, 10);
  if (end == value || *end != '\0' || count < -1 || count > G_MAXINT)
    refuse_fact (error, facts, fact, "'%.60s' is no number that it can have", value);
  return count;
}

const char *ps_launch_precision (const PsLaunchFacts *facts)
{
  const char *recipe = ps_launch_fact (facts, "precision.recipe"), *name = ps_launch_fact (facts, "precision");
  guint precision;

  if (name == NULL || !ps_precision_parse ("", name, &precision, NULL))
    name = NULL;
  else if (precision > PS_PRECISION_BF16) /* else that of all but products, which may have fewer bits */
    return ps_precision_name (precision);
  if (ps_launch_is (facts, "precision.fp4"))
    return "nvfp4";
  if (ps_launch_is (facts, "precision.fp8"))
    return recipe != NULL && ps_precision_parse ("", recipe, &precision, NULL) ? ps_precision_name (precision) : "fp8";
  if (name != NULL)
    return ps_precision_name (precision);
  return ps_launch_is (facts, "precision.fp16") ? "fp16" : ps_launch_is (facts, "precision.bf16") ? "bf16" : "fp32";
}

gboolean ps_launch_has_model (const PsLaunchFacts *facts)
{
  return ps_launch_fact (facts, "hidden") != NULL || !ps_launch_known (facts, "hidden", NULL);
}

/* Writes `mark` at `place` of the layers that the text names; a layer has n_letters letters. "N" names each N-th layer,
 * or with `skipped` all others; a Python list "([0]*3+[1]*58)" names the layers with 1. FALSE: the text is neither. */
static gboolean mark_layers (const char *text, gboolean skipped, char mark, guint place, guint n_letters,
                             GString *pattern)
{
  const guint n = (guint)pattern->len / n_letters;
  char *end;
  gint64 every = g_ascii_strtoll (text, &end, 10);
  guint i = 0;

  if (end != text && *end == '\0' && every > 0) {
    for (i = 0; i < n; i++)
      if (skipped ? (i + 1) % every != 0 : i % every == 0)
        pattern->str[n_letters * i + place] = mark;
    return TRUE;
  }
  for (const char *at = text; *at != '\0'; at += strspn (at, "()+ ,]'\"")) {
    gboolean list = *at == '[';
    const char *open = list ? at + 1 : at, *close = list ? strpbrk (open, "])") : open + 1;
    gint64 count = 1;

    if (close == NULL)
      return FALSE;
    gsize length = (gsize)(close - open);
    const char *times = list ? close + 1 : close;
    if (strchr ("()+ ,'\"", *at) != NULL) {
      at++;
      continue;
    }
    if (*times == '*')
      count = g_ascii_strtoll (times + 1, &end, 10);
    for (gint64 k = 0; k < MIN (count, n); k++)
      for (gsize c = 0; c < length; c++)
        if (open[c] == '0' || open[c] == '1') {
          if (i < n && open[c] == '1')
            pattern->str[n_letters * i + place] = mark;
          i++;
        } else if (strchr (", ", open[c]) == NULL)
          return FALSE;
    at = *times == '*' ? end : times;
  }
  return i == n;
}

/* The pattern of GPTModel's layers, by the lists of what some of them have; NULL on error. */
static char *make_pattern (const PsLaunchFacts *facts, guint layers, GError **error)
{
  g_autoptr (GString) pattern = g_string_new (NULL);
  const char *variant = ps_launch_fact (facts, "variant");
  gboolean latent = ps_launch_is (facts, "latent"), mixed = ps_launch_is (facts, "experts_of_layer");
  gboolean window = ps_launch_is (facts, "window");
  const struct {
    const char *fact;
    gboolean given;
    char mark;
    guint place;
  } lists[] = { { "full-layers", window, 'w', 0 },
                { "linear-layers", g_strcmp0 (variant, "gated_delta_net") == 0, 'G', 0 },
                { "expert-layers", mixed, 'E', 1 } };
  char mixer = g_strcmp0 (variant, "dsa") == 0 ? 'D' : latent ? '+' : '*';

  for (guint i = 0; i < layers; i++)
    g_string_append_printf (pattern, "%c-", mixer);
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++) {
    const char *text = ps_launch_fact (facts, lists[i].fact);

    if (lists[i].given
        && !mark_layers (text != NULL ? text : "1", i < 2 && text != NULL, lists[i].mark, lists[i].place, 2, pattern)) {
      refuse_fact (error, facts, lists[i].fact, "expected N or a list of 0 and 1 for %u layers", layers);
      return NULL;
    }
  }
  return g_string_free (g_steal_pointer (&pattern), FALSE);
}

/* The units of HybridModel's pattern without its cuts and brackets. It counts each unit as a layer, and attention with
 * a window is marked in the list of all. */
static char *strip_pattern (const PsLaunchFacts *facts, const char *text)
{
  GString *pattern = g_string_new (NULL);
  const char *list = ps_launch_fact (facts, "full-layers");

  for (; *text != '\0'; text++)
    if (strchr ("|[] ", *text) == NULL)
      g_string_append_c (pattern, *text);
  if (ps_launch_is (facts, "window")) {
    gsize n = strcspn (pattern->str, "/");
    g_autoptr (GString) marks = g_string_new_len (pattern->str, (gssize)n);

    mark_layers (list != NULL ? list : "1", list != NULL, 'w', 0, 1, marks);
    for (gsize i = 0; i < n; i++)
      if (pattern->str[i] == '*' && marks->str[i] == 'w')
        pattern->str[i] = 'w';
  }
  return g_string_free (pattern, FALSE);
}

/* Whether each layer is a mixer and a forward. */
static gboolean is_paired (const char *pattern)
{
  const gsize n = strcspn (pattern, "/");

  for (gsize i = 0; i < n; i++)
    if ((strchr ("-E", pattern[i]) != NULL) != (i % 2 == 1))
      return FALSE;
  return n > 0 && n % 2 == 0;
}

static void add_line (GString *ini, const char *key, const char *value)
{
  g_string_append_printf (ini, "%s = %s\n", key, value);
}

/* The lines of the model's description that follow from several keys. */
static void add_joint_lines (const PsLaunchFacts *facts, GString *ini)
{
  const char *rotary = ps_launch_fact (facts, "rotary"), *heads = ps_launch_fact (facts, "heads");
  gboolean swiglu = ps_launch_is (facts, "swiglu"), relu2 = ps_launch_is (facts, "squared-relu");
  gboolean bare = ps_launch_is (facts, "no-biases"), latent = ps_launch_is (facts, "latent");
  gboolean llama = swiglu || relu2;
  gboolean implied = facts->form == PS_LAUNCH_YAML && ps_launch_fact (facts, "grouped") == NULL;
  const char *groups = ps_launch_fact (facts, implied || ps_launch_is (facts, "grouped") ? "groups" : "kv-heads");
  gint64 window
      = g_ascii_strtoll (ps_launch_is (facts, "window") ? ps_launch_fact (facts, "window") + 1 : "0", NULL, 10);

  add_line (ini, "mlp", swiglu ? "swiglu" : relu2 ? "relu2" : "gelu");
  if (!latent && groups != NULL && g_strcmp0 (groups, heads) != 0)
    add_line (ini, "kv_heads", groups);
  if (llama && !bare) {
    add_line (ini, "qkv_bias", "true");
    add_line (ini, "other_biases", "true");
  } else if (llama && ps_launch_is (facts, "qkv-bias"))
    add_line (ini, "qkv_bias", "true");
  else if (!llama && bare)
    add_line (ini, "biases", "false");
  if (!llama && rotary != NULL)
    add_line (ini, "positions", "false");
  if (window > 0)
    g_string_append_printf (ini, "window = %" G_GINT64_FORMAT "\n", window + 1);
  if (ps_launch_is (facts, "capacity") && ps_launch_is (facts, "padded"))
    add_line (ini, "capacity", ps_launch_fact (facts, "capacity"));
  if (ps_launch_is (facts, "experts_of_layer"))
    add_line (ini, "experts", ps_launch_fact (facts, "experts_of_layer"));
}

/* Words that tokenizers have, by a part of the names of their models or types: the whole tokenizer (len), which
 * Megatron-LM's HuggingFaceTokenizer asks, where that is published, else vocab_size of config.json. Each row names its
 * source. The first row that fits counts. */
static const struct {
  const char *name;
  guint size;
} tokenizers[] = {
  { "llama-3", 128256 },               /* config.json of meta-llama/Meta-Llama-3-8B */
  { "llama3", 128256 },                /* the same */
  { "llama-4", 202048 },               /* config.json of meta-llama/Llama-4-Scout-17B-16E */
  { "codellama", 32016 },              /* config.json of codellama/CodeLlama-7b-hf */
  { "distill-llama", 128256 },         /* config.json of deepseek-ai/DeepSeek-R1-Distill-Llama-8B */
  { "llama", 32000 },                  /* config.json of meta-llama/Llama-2-7b-hf */
  { "vicuna", 32000 },                 /* config.json of lmsys/vicuna-7b-v1.5 */
  { "mistral-7b-v0.3", 32768 },        /* config.json of mistralai/Mistral-7B-v0.3 */
  { "instruct-v0.3", 32768 },          /* the same */
  { "mistral-nemo", 131072 },          /* config.json of mistralai/Mistral-Nemo-Base-2407 */
  { "mixtral", 32000 },                /* config.json of mistralai/Mixtral-8x7B-v0.1 and 8x22B-v0.1 */
  { "mistral", 32000 },                /* config.json of mistralai/Mistral-7B-v0.1 */
  { "qwen3tokenizer", 151643 },        /* Pai-Megatron-Patch: vocab.json of Qwen/Qwen3-8B */
  { "qwen3", 151669 },                 /* b4rtaz/distributed-llama pull request 282, of tokenizer.json */
  { "qwen2tokenizer", 151643 },        /* Pai-Megatron-Patch: vocab.json of Qwen/Qwen2-7B; QwenLM/Qwen3 issue 29 */
  { "qwen2vl", 151643 },               /* the same */
  { "qwen2.5", 151665 },               /* Primus, kimi_k3_curve.yaml: 151643 and 22 more */
  { "qwen2", 151646 },                 /* Qwen2.5-VL's technical report; QwenLM/Qwen3 issue 885 */
  { "qwen", 151851 },                  /* QwenLM/Qwen, tokenization_note.md */
  { "deepseekv2tokenizer", 100000 },   /* Pai-Megatron-Patch; arXiv 2401.02954, section 2 */
  { "deepseek-v3", 128815 },           /* Megatron-Bridge, configuration_step35.py */
  { "deepseek-r1", 128815 },           /* the same */
  { "gpt-oss", 200019 },               /* tiktoken, openai_public.py: o200k_base */
  { "gpt-neox", 50277 },               /* config.json of state-spaces/mamba-2.8b */
  { "minitron", 256000 },              /* config.json of nvidia/Minitron-8B-Base */
  { "nemotron-4", 256000 },            /* model card of nvidia/Nemotron-4-340B-Base */
  { "gemma-3", 262208 },               /* config.json of google/gemma-3-27b-it */
  { "gemma", 256000 },                 /* config.json of google/gemma-7b and gemma-2-9b */
  { "falcon", 65024 },                 /* config.json of tiiuae/falcon-7b */
  { "opttokenizer", 50272 },           /* config.json of facebook/opt-6.7b */
  { "opt-", 50272 },                   /* the same */
  { "bloom", 250680 },                 /* bigscience, train/tr11-176B-ml/README.md */
  { "baichuan2", 125696 },             /* config.json of baichuan-inc/Baichuan2-7B-Base */
  { "baichuan", 64000 },               /* config.json of baichuan-inc/Baichuan-7B */
  { "yi-", 64000 },                    /* config.json of 01-ai/Yi-34B */
  { "yitokenizer", 64000 },            /* the same */
  { "starcoder", 49152 },              /* config.json of bigcode/starcoder */
  { "mt5", 250112 },                   /* config.json of google/mt5-base */
  { "t5", 32128 },                     /* config.json of t5-base */
  { "phi-3", 32064 },                  /* config.json of microsoft/Phi-3-mini-4k-instruct */
  { "gpt2", 50257 },                   /* config.json of gpt2 */
  { "pretrain_gpt", 50257 },           /* the same */
  { "pretrain_bert", 30522 },          /* config.json of bert-base-uncased */
  { "pretrain_t5", 30522 },            /* the same */
  { "bertwordpiecelowercase", 30522 }, /* the same */
  { "bertwordpiececase", 28996 },      /* config.json of bert-base-cased */
};

/* What the file says of the fact, though only an execution would tell the whole: "${FOLDER}/llama-3/tokenizer.model".
 */
static const char *said (const PsLaunchFacts *facts, const char *fact)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->sources, fact);

  return key != NULL ? key->value : NULL;
}

/* The words of the tokenizer, and rows up to the multiple that each of t GPUs has a part of. 0: it is not known. */
static gint64 find_vocabulary (const PsLaunchFacts *facts, GError **error)
{
  const char *const names[] = { said (facts, "tokenizer-model"), said (facts, "tokenizer-type"),
                                said (facts, "program"), said (facts, "merge-file") != NULL ? "gpt2" : NULL };
  const char *model = ps_launch_fact (facts, "tokenizer-model"), *type = ps_launch_fact (facts, "tokenizer-type");
  const char *shown = model != NULL ? model : type != NULL ? type : "";
  GError *cause = NULL;
  gint64 t = ps_launch_count (facts, "tensor", 1, &cause), more = ps_launch_count (facts, "further-words", 0, &cause);
  gint64 multiple = MAX (ps_launch_count (facts, "vocabulary-multiple", 128, &cause), 1) * MAX (t, 1), size = 0;

  for (guint k = 0; k < G_N_ELEMENTS (names) && size == 0; k++)
    for (guint i = 0; names[k] != NULL && i < G_N_ELEMENTS (tokenizers) && size == 0; i++) {
      g_autofree char *name = g_ascii_strdown (names[k], -1);

      size = strstr (name, tokenizers[i].name) != NULL ? tokenizers[i].size : 0;
    }
  if (cause != NULL)
    g_propagate_error (error, cause);
  else if (size == 0)
    ps_refuse (error, PS_ERROR_INPUT, "%s: says no vocab_size, and its tokenizer %s%sis not known here; give --model%s",
               facts->where, shown, *shown != '\0' ? " " : "",
               facts->form == PS_LAUNCH_WORDS ? ", or --from 'FILE --vocab-size N'" : "");
  return size > 0 && cause == NULL ? (size + MAX (more, 0) + multiple - 1) / multiple * multiple : 0;
}

/* The rows of the model that its form of attention and of forwards has. */
static gboolean belongs (const PsLaunchFacts *facts, const char *key)
{
  static const char *const latent[] = { "q_rank", "kv_rank", "nope_size", "rope_size", "value_size", NULL };
  static const char *const mixed[]
      = { "active_experts", "expert_feed_forward", "shared_feed_forward", "shared_gate", "expert_latent", NULL };
  static const char *const plain[] = { "head_size", "qk_norm", NULL };
  const char *variant = ps_launch_fact (facts, "variant"), *pattern = ps_launch_fact (facts, "pattern");
  const char *letters = pattern != NULL ? pattern : "";

  if (g_strv_contains (latent, key))
    return ps_launch_is (facts, "latent");
  if (g_strv_contains (mixed, key))
    return ps_launch_is (facts, "experts_of_layer");
  if (g_strv_contains (plain, key))
    return !ps_launch_is (facts, "latent");
  if (g_str_has_prefix (key, "mamba_"))
    return strchr (letters, 'M') != NULL;
  if (g_str_has_prefix (key, "delta_"))
    return strchr (letters, 'G') != NULL || g_strcmp0 (variant, "gated_delta_net") == 0;
  if (g_str_has_prefix (key, "index_"))
    return strchr (letters, 'D') != NULL || g_strcmp0 (variant, "dsa") == 0;
  if (g_str_equal (key, "mtp"))
    return strchr (letters, '/') == NULL;
  return !g_str_equal (key, "experts_of_layer") && !g_str_equal (key, "layers");
}

/* What Megatron-LM takes where nothing is said (training/arguments.py, transformer_config.py): 4 times the width, of
 * SwiGLU two thirds of that in multiples of 64; sizes of latent attention and of Mamba. */
static void add_defaults (const PsLaunchFacts *facts, GString *ini)
{
  const gint64 hidden = g_ascii_strtoll (ps_launch_fact (facts, "hidden"), NULL, 10);
  const char *wide = ps_launch_fact (facts, "feed_forward"), *head = ps_launch_fact (facts, "mamba_head_size");
  gint64 width = wide != NULL                     ? g_ascii_strtoll (wide, NULL, 10)
                 : ps_launch_is (facts, "swiglu") ? hidden * 8 / 3 / 64 * 64
                                                  : 4 * hidden;
  const struct {
    const char *key;
    gint64 value;
  } defaults[] = { { "feed_forward", width },
                   { "active_experts", 2 },
                   { "expert_feed_forward", width },
                   { "kv_rank", 32 },
                   { "nope_size", 128 },
                   { "rope_size", 64 },
                   { "value_size", 128 },
                   { "mamba_heads", 2 * hidden / MAX (1, head != NULL ? g_ascii_strtoll (head, NULL, 10) : 64) },
                   { "mamba_head_size", 64 },
                   { "mamba_state", 128 },
                   { "mamba_groups", 8 } };

  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    if (ps_launch_fact (facts, defaults[i].key) == NULL && belongs (facts, defaults[i].key))
      g_string_append_printf (ini, "%s = %" G_GINT64_FORMAT "\n", defaults[i].key, defaults[i].value);
  if (ps_launch_fact (facts, "tied") == NULL)
    add_line (ini, "tied", "true");
  if (ps_launch_fact (facts, "flash_attention") == NULL)
    add_line (ini, "flash_attention", "true");
}

/* What the pattern says: layers, modules of multi-token prediction, and units. NULL on error. */
static char *add_pattern (const PsLaunchFacts *facts, GString *ini, GError **error)
{
  const char *hybrid = ps_launch_fact (facts, "pattern");
  GError *cause = NULL;
  gint64 layers = ps_launch_count (facts, "layers", 0, &cause);
  g_autofree char *pattern = hybrid != NULL ? strip_pattern (facts, hybrid) : NULL;

  if (cause != NULL) {
    g_propagate_error (error, cause);
    return NULL;
  }
  if (hybrid == NULL && (layers < 1 || layers > PS_MAX_STAGES))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: says no num_layers", facts->where);
  if (hybrid == NULL)
    pattern = make_pattern (facts, (guint)layers, error);
  else {
    guint n_modules = 0;

    layers = (gint64)strcspn (pattern, "/") / (is_paired (pattern) ? 2 : 1);
    for (const char *at = pattern; *at != '\0'; at++)
      n_modules += *at == '/';
    if (n_modules > 0)
      g_string_append_printf (ini, "mtp = %u\n", n_modules);
    if (n_modules > 1)
      *strchr (strchr (pattern, '/') + 1, '/') = '\0';
  }
  g_string_append_printf (ini, "layers = %" G_GINT64_FORMAT "\n", layers);
  return g_steal_pointer (&pattern);
}

char *ps_launch_model_text (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (PsLaunchFacts) facts = ps_launch_facts (where, text, form, error);
  g_autoptr (GString) ini = g_string_new ("[model]\n");
  const char *fact;

  if (facts == NULL)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if ((rows[i].kind == PS_KEY_MODEL || rows[i].kind == PS_KEY_SHAPE) && !ps_launch_known (facts, rows[i].fact, error))
      return NULL;
  if (!ps_launch_has_model (facts))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: defines no model (hidden_size); give --model", where);
  g_autofree char *pattern = add_pattern (facts, ini, error);
  if (pattern == NULL)
    return NULL;
  if (ps_launch_fact (facts, "vocabulary") == NULL) {
    gint64 vocabulary = find_vocabulary (facts, error);

    if (vocabulary == 0)
      return NULL;
    g_string_append_printf (ini, "vocabulary = %" G_GINT64_FORMAT "\n", vocabulary);
  }
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    fact = rows[i].kind == PS_KEY_MODEL ? ps_launch_fact (facts, rows[i].fact) : NULL;
    for (guint k = 0; k < i && fact != NULL; k++)
      fact = rows[k].fact == rows[i].fact || g_strcmp0 (rows[k].fact, rows[i].fact) == 0 ? NULL : fact;
    if (fact != NULL && belongs (facts, rows[i].fact) && !g_str_equal (fact, "false") && !g_str_equal (fact, "0"))
      add_line (ini, rows[i].fact, fact);
    else if (fact != NULL && (g_str_equal (rows[i].fact, "tied") || g_str_equal (rows[i].fact, "flash_attention")))
      add_line (ini, rows[i].fact, fact);
  }
  add_joint_lines (facts, ini);
  add_defaults (facts, ini);
  const char *sequence = ps_launch_fact (facts, "sequence"), *size = ps_launch_fact (facts, "microbatch-size");
  add_line (ini, "sequence", sequence != NULL ? sequence : "4096");
  add_line (ini, "microbatch_size", size != NULL ? size : "1");
  add_line (ini, "precision", ps_launch_precision (facts));
  add_line (ini, "pattern", pattern);
  return g_string_free (g_steal_pointer (&ini), FALSE);
}
