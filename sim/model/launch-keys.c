/* launch-keys.c - what the keys of frameworks are to pipesim: one table. */
#include "launch-text.h"

#include <string.h>

/* A key is here by the name of Megatron-LM's argument, by those of older releases, and by the one of its log where that
 * is another. YAML has the same names below the sections of a configuration. Keys with a point are of torchtitan, and
 * those with "zero_optimization." and the like of DeepSpeed. A new key is a new row. */
const PsKeyRow ps_key_rows[] = {
  /* GPUs */
  { "nproc_per_node num_gpus gpus_per_node num_gpus_per_node trainer.devices", PS_KEY_SETTING, "gpus-per-node", NULL },
  { "nnodes num_nodes", PS_KEY_SETTING, "nodes", NULL },
  { "world_size", PS_KEY_SETTING, "gpus", NULL },
  { "program _target_", PS_KEY_SETTING, "program", NULL },
  { "tensor_model_parallel_size model_parallel_size parallelism.tensor_parallel_degree training.tensor_parallel_degree "
    "num_mp",
    PS_KEY_SETTING, "tensor", NULL },
  { "sequence_parallel", PS_KEY_SETTING, "sequence-parallel", "=true" },
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
  { "parallelism.num_pp_microbatches", PS_KEY_SETTING, "microbatches.piped", NULL },
  { "training.num_tokens_per_microbatch_per_dp_rank", PS_KEY_SETTING, "microbatch-size.tokens", NULL },
  { "training.num_tokens_per_train_step", PS_KEY_SETTING, "global-batch.tokens", "-1=" },
  { "seq_length training.seq_len training.max_context_length model.encoder_seq_length", PS_KEY_SETTING, "sequence",
    NULL },

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
  { "activation_checkpoint.mode", PS_KEY_SETTING, "recompute.granularity", NULL },
  { "activation_checkpoint.selective_ac_option", PS_KEY_SETTING, "recompute.selects", NULL },
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
  { "fp4_recipe high_priority_stream_groups moe_grouped_gemm moe_router_pre_softmax spec "
    "reuse_grad_buf_for_mxfp8_param_ag moe_router_dtype moe_router_force_load_balancing moe_router_load_balancing_type "
    "moe_aux_loss_coeff "
    "moe_z_loss_coeff moe_permute_fusion moe_router_fusion moe_router_score_function moe_router_enable_expert_bias "
    "moe_router_bias_update_rate moe_router_num_groups moe_router_group_topk moe_router_topk_scaling_factor "
    "moe_per_layer_logging moe_shared_expert_overlap moe_token_drop_policy mtp_loss_scaling_factor transformer_impl "
    "use_mcore_models use_flash_attn no_masked_softmax_fusion masked_softmax_fusion no_bias_swiglu_fusion "
    "bias_swiglu_fusion no_bias_gelu_fusion bias_dropout_fusion no_bias_dropout_fusion no_rope_fusion "
    "apply_rope_fusion attention_softmax_in_fp32 gradient_accumulation_fusion no_gradient_accumulation_fusion "
    "apply_layernorm_1p norm_epsilon layernorm_epsilon rotary_base rotary_percent "
    "rotary_seq_len_interpolation_factor use_rotary_position_embeddings rope_type use_rope_scaling "
    "rope_scaling_factor mscale mscale_all_dim rotary_scaling_factor beta_fast beta_slow no_position_embedding "
    "te_rng_tracker manual_gc manual_gc_interval distributed_backend distributed_timeout_minutes master_addr "
    "master_port node_rank max_restarts tee role hostfile local_addr local_ranks_filter no_python "
    "async_tensor_model_parallel_allreduce exit_on_missing_checkpoint enable_experimental calculate_per_token_loss "
    "ddp_bucket_size ddp_num_buckets ddp_average_in_collective check_for_nan_in_loss_and_grad "
    "no_check_for_nan_in_loss_and_grad rerun_mode use_pytorch_profiler align_grad_reduce align_param_gather "
    "no_create_attention_mask_in_dataloader init_method_std init_method_xavier_uniform "
    "use_fused_weighted_squared_relu cross_entropy_loss_fusion_impl kitchen_config_file fp8_margin fp8_interval "
    "fp8_amax_history_len fp8_amax_compute_algo first_last_layers_bf16 num_layers_at_start_in_bf16 "
    "num_layers_at_end_in_bf16 keep_fp8_transpose_cache keep_fp8_weight_transpose_cache cuda_graph_warmup_steps "
    "is_hybrid_model attention_dropout_p mock_data data_impl deepspeed_activation_checkpointing pp_partition_method "
    "abort_on_unmet_fused_kernel_constraints train_weighted_split_paths_path train_weighted_split_paths "
    "kill_switch_path norm_target_loss use_checkpoint_args reset_progress dataloader_save "
    "zero_allow_untested_optimizer universal_checkpoint sync_tp_duplicated_parameters DDP_impl "
    "no_query_key_layer_scaling force_multi skip_train_iteration_range partition_activations synchronize_each_layer "
    "contigious_checkpointing train_tokens no_async_tensor_model_parallel_allreduce redirects membind "
    "vocab_extra_ids no_log_loss_scale_to_tensorboard exit_signal_handler codecarbon_dir use_te label "
    "decoder_seq_length batch_size task train_data epochs prompt_path special_tokens patch_dim deepspeed_mpi "
    "override_lr_scheduler override_opt_param_scheduler hysteresis moe_loss_coeff moe_train_capacity_factor "
    "moe_eval_capacity_factor moe_min_capacity",
    PS_KEY_HARMLESS, NULL, NULL },
  { "train_iters train_samples exit_interval exit_duration_in_mins lr min_lr weight_decay weight_decay_incr_style "
    "start_weight_decay end_weight_decay decoupled_lr decoupled_min_lr empty_unused_memory_level clip_grad "
    "muon_momentum use_checkpoint_opt_param_scheduler seed loss_scale initial_loss_scale min_loss_scale "
    "loss_scale_window data_path train_data_path data_cache_path data_args_path per_split_data_args_path split "
    "vocab_file tiktoken_pattern tiktoken_num_special_tokens num_workers dataloader_type reset_position_ids "
    "reset_attention_mask eod_mask_loss no_mmap_bin_files num_dataset_builder_threads save load save_interval "
    "finetune async_save use_dist_ckpt auto_detect_ckpt_format pretrained_checkpoint use_persistent_ckpt_worker "
    "logging_level profile record_memory_history memory_snapshot_path skip_train no_one_logger enable_one_logger "
    "attention_dropout_rng job_name deepspeed_config log_ wandb_ tensorboard_ lr_ adam_ eval_ no_load_ no_save_ "
    "profile_ ckpt_ dist_ckpt_ rdzv_ valid_ test_ timing_log_ one_logger_",
    PS_KEY_HARMLESS, NULL, NULL },
  { "job. profiling. metrics. checkpoint. comm. debug. validation. lr_scheduler. fault_tolerance. experimental. "
    "tokenizer. logger. dataset. scheduler. rng. dist. rerun_state_machine. straggler. nvrx_straggler. "
    "checkpoint_config. gradient_clipping optimizer.params. optimizer.type wall_clock_breakdown steps_per_print "
    "prescale_gradients flops_profiler. tensorboard. activation_checkpointing. comms_logger. csv_monitor. "
    "zero_optimization. bf16. fp16. zero_allow_untrusted_optimizer communication_data_type data_types. aio. "
    "optimizer.name optimizer.lr optimizer.eps optimizer.beta1 optimizer.beta2 optimizer.weight_decay "
    "optimizer.early_step_in_backward training.steps training.dataset training.dataset_path training.max_norm "
    "training.seed training.deterministic training.gc_freq training.gc_debug training.mixed_precision_reduce "
    "training.disable_cuda_graphs training.dtype model.hf_assets_path model.tokenizer_path model.norm_type "
    "optimizer.fused model.print_after_conversion parallelism.disable_loss_parallel "
    "parallelism.enable_async_tensor_parallel parallelism.enable_compiled_autograd activation_checkpoint. compile. "
    "float8. quantize. memory_estimation.",
    PS_KEY_HARMLESS, NULL, NULL },
  { .keys = NULL },
};

/* Rows by the names of their keys; of two with one name the first. */
static GHashTable *rows_by_name (void)
{
  static GHashTable *table;
  static gsize once = 0;

  if (g_once_init_enter (&once)) {
    table = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = G_N_ELEMENTS (ps_key_rows) - 1; i-- > 0;) {
      g_auto (GStrv) names = g_strsplit (ps_key_rows[i].keys, " ", -1);

      for (char **name = names; *name != NULL; name++)
        g_hash_table_replace (table, g_strdup (*name), (gpointer)&ps_key_rows[i]);
    }
    g_once_init_leave (&once, 1);
  }
  return table;
}

/* The row of a key; "metrics." and "log_" have all keys that begin with them. */
static const PsKeyRow *find_row (const char *key)
{
  GHashTable *table = rows_by_name ();
  const PsKeyRow *row = g_hash_table_lookup (table, key), *section = NULL;

  for (const char *end = strpbrk (key, "._"); row == NULL && end != NULL; end = strpbrk (end + 1, "._")) {
    g_autofree char *begin = g_strndup (key, (gsize)(end + 1 - key));
    const PsKeyRow *found = g_hash_table_lookup (table, begin);

    section = found != NULL && (section == NULL || found < section) ? found : section;
  }
  return row != NULL ? row : section;
}

char *ps_launch_key (const char *fact, const char *section)
{
  for (const PsKeyRow *row = ps_key_rows; row->keys != NULL; row++)
    for (const char *name = row->keys; g_strcmp0 (row->fact, fact) == 0 && *name != '\0'; name += strspn (name, " ")) {
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

const char *ps_launch_key_reason (const char *key)
{
  return ps_launch_key_row (PS_LAUNCH_YAML, key)->fact;
}
