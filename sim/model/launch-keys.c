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
  { "nproc_per_node nproc-per-node num_gpus gpus_per_node num_gpus_per_node", PS_KEY_SETTING, "gpus-per-node", NULL },
  { "nnodes num_nodes", PS_KEY_SETTING, "nodes", NULL },
  { "world_size", PS_KEY_SETTING, "gpus", NULL },
  { "program _target_", PS_KEY_SETTING, "program", NULL },
  { "tensor_model_parallel_size model_parallel_size parallelism.tensor_parallel_degree num_mp", PS_KEY_SETTING,
    "tensor", NULL },
  { "pipeline_model_parallel_size parallelism.pipeline_parallel_degree num_pp", PS_KEY_SETTING, "devices", NULL },
  { "context_parallel_size parallelism.context_parallel_degree", PS_KEY_SETTING, "context", NULL },
  { "expert_model_parallel_size parallelism.expert_parallel_degree", PS_KEY_SETTING, "experts", NULL },
  { "data_parallel_size num_dp", PS_KEY_SETTING, "replicas", NULL },
  { "parallelism.data_parallel_replicate_degree", PS_KEY_SETTING, "replicated", NULL },
  { "parallelism.data_parallel_shard_degree", PS_KEY_SETTING, "sharded", NULL },
  { "parallelism.fsdp_reshard_after_forward", PS_KEY_SETTING, "reshard", NULL },
  { "use_tp_pp_dp_mapping", PS_KEY_SETTING, "mapping", NULL },

  /* Batches */
  { "micro_batch_size train_micro_batch_size_per_gpu parallelism.pipeline_parallel_microbatch_size", PS_KEY_SETTING,
    "microbatch-size", NULL },
  { "global_batch_size train_batch_size training.global_batch_size", PS_KEY_SETTING, "global-batch", "-1=" },
  { "training.local_batch_size training.batch_size", PS_KEY_SETTING, "local-batch", NULL },
  { "gradient_accumulation_steps", PS_KEY_SETTING, "microbatches", NULL },
  { "seq_length training.seq_len", PS_KEY_SETTING, "sequence", NULL },

  /* Stages and schedule */
  { "num_layers_per_virtual_pipeline_stage", PS_KEY_SETTING, "layers-per-chunk", NULL },
  { "virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank", PS_KEY_SETTING, "chunks", NULL },
  { "pipeline_model_parallel_layout", PS_KEY_SETTING, "layout", NULL },
  { "decoder_first_pipeline_num_layers num_layers_in_first_pipeline_stage", PS_KEY_SETTING, "first", NULL },
  { "decoder_last_pipeline_num_layers num_layers_in_last_pipeline_stage", PS_KEY_SETTING, "last", NULL },
  { "account_for_embedding_in_pipeline_split", PS_KEY_SETTING, "count-embedding", NULL },
  { "account_for_loss_in_pipeline_split", PS_KEY_SETTING, "count-loss", NULL },
  { "microbatch_group_size_per_virtual_pipeline_stage microbatch_group_size_per_vp_stage", PS_KEY_SETTING, "group",
    NULL },
  { "overlap_moe_expert_parallel_comm", PS_KEY_SETTING, "overlaps", NULL },
  { "delay_wgrad_compute", PS_KEY_SETTING, "delays-w", NULL },
  { "defer_embedding_wgrad_compute", PS_KEY_SETTING, "defers", NULL },
  { "wgrad_deferral_limit", PS_KEY_SETTING, "defer-head", NULL },
  { "parallelism.pipeline_parallel_schedule", PS_KEY_SETTING, "torch-schedule", NULL },
  { "parallelism.module_fqns_per_model_part", PS_KEY_SETTING, "parts", NULL },
  { "parts", PS_KEY_SETTING, "cuts", NULL },
  { "parallelism.pipeline_parallel_schedule_csv", PS_KEY_SETTING, "schedule", NULL },
  { "parallelism.pipeline_parallel_layers_per_stage", PS_KEY_SETTING, "layers-per-chunk", NULL },

  /* Number formats */
  { "bf16 bf16.enabled", PS_KEY_SETTING, "bf16", NULL },
  { "fp16 fp16.enabled", PS_KEY_SETTING, "fp16", NULL },
  { "fp8_format fp8", PS_KEY_SETTING, "fp8", NULL },
  { "fp8_recipe", PS_KEY_SETTING, "fp8-recipe", NULL },
  { "fp4_format fp4", PS_KEY_SETTING, "fp4", NULL },
  { "training.mixed_precision_param", PS_KEY_SETTING, "bf16", "bfloat16=true float32=false" },
  { "accumulate_allreduce_grads_in_fp32", PS_KEY_HARMLESS, NULL, NULL },
  { "grad_reduce_in_bf16", PS_KEY_SETTING, "reduce-bf16", NULL },
  { "use_precision_aware_optimizer", PS_KEY_SETTING, "precise", NULL },
  { "main_grads_dtype data_types.grad_accum_dtype", PS_KEY_SETTING, "main-grads-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16" },
  { "main_params_dtype", PS_KEY_SETTING, "main-params-dtype", "torch.float32=fp32 torch.float16=fp16" },
  { "exp_avg_dtype", PS_KEY_SETTING, "exp-avg-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8" },
  { "exp_avg_sq_dtype", PS_KEY_SETTING, "exp-avg-sq-dtype",
    "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8" },
  { "fp8_param_gather fp8_param fp4_param_gather fp4_param", PS_KEY_SETTING, "fp8-param-gather", NULL },
  { "optimizer", PS_KEY_SETTING, "optimizer", "dist_muon=muon" },
  { "optimizer.implementation", PS_KEY_SETTING, "optimizer-implementation", NULL },

  /* What is kept, sharded, overlapped */
  { "recompute_granularity", PS_KEY_SETTING, "granularity", NULL },
  { "recompute_activations", PS_KEY_SETTING, "granularity", "=selective" },
  { "recompute_method", PS_KEY_SETTING, "recompute-method", NULL },
  { "recompute_num_layers", PS_KEY_SETTING, "recompute-layers", NULL },
  { "recompute_modules", PS_KEY_SETTING, "recompute-modules", NULL },
  { "activation_checkpoint.mode", PS_KEY_SETTING, "granularity", "none=" },
  { "activation_checkpoint_interval", PS_KEY_SETTING, "checkpoint-interval", NULL },
  { "fine_grained_activation_offloading", PS_KEY_SETTING, "offloads", NULL },
  { "offload_modules", PS_KEY_SETTING, "offload-modules", NULL },
  { "use_distributed_optimizer", PS_KEY_SETTING, "distributed-optimizer", NULL },
  { "use_megatron_fsdp use_custom_fsdp", PS_KEY_SETTING, "fsdp", NULL },
  { "data_parallel_sharding_strategy", PS_KEY_SETTING, "sharding", NULL },
  { "zero_optimization.stage", PS_KEY_SETTING, "zero", NULL },
  { "overlap_grad_reduce", PS_KEY_SETTING, "overlap-reduce", NULL },
  { "overlap_param_gather", PS_KEY_SETTING, "overlap-param-gather", NULL },
  { "tp_comm_overlap", PS_KEY_SETTING, "tp-comm-overlap", NULL },
  { "moe_token_dispatcher_type", PS_KEY_SETTING, "dispatcher", NULL },
  { "moe_flex_dispatcher_backend", PS_KEY_SETTING, "flex-backend", NULL },
  { "cuda_graph_impl", PS_KEY_SETTING, "graph-impl", "none=" },
  { "cuda_graph_scope", PS_KEY_SETTING, "graph-scope", NULL },
  { "cross_entropy_loss_fusion", PS_KEY_SETTING, "loss-fusion", NULL },
  { "cross_entropy_fusion_impl", PS_KEY_SETTING, "loss-impl", NULL },
  { "model.name", PS_KEY_SETTING, "titan-module", NULL },
  { "module", PS_KEY_SETTING, "titan-module", NULL },
  { "model.flavor", PS_KEY_SETTING, "titan-flavor", NULL },
  { "config", PS_KEY_SETTING, "titan-config", NULL },

  /* The model */
  { "num_layers encoder_num_layers", PS_KEY_MODEL, "layers", NULL },
  { "hidden_size", PS_KEY_MODEL, "hidden", NULL },
  { "ffn_hidden_size", PS_KEY_MODEL, "feed_forward", NULL },
  { "num_attention_heads", PS_KEY_MODEL, "heads", NULL },
  { "kv_channels", PS_KEY_MODEL, "head_size", NULL },
  { "group_query_attention", PS_KEY_SETTING, "grouped", NULL },
  { "num_query_groups", PS_KEY_SETTING, "groups", NULL },
  { "multi_latent_attention", PS_KEY_SETTING, "latent", NULL },
  { "q_lora_rank", PS_KEY_MODEL, "q_rank", NULL },
  { "kv_lora_rank", PS_KEY_MODEL, "kv_rank", NULL },
  { "qk_head_dim", PS_KEY_MODEL, "nope_size", NULL },
  { "qk_pos_emb_head_dim", PS_KEY_MODEL, "rope_size", NULL },
  { "v_head_dim", PS_KEY_MODEL, "value_size", NULL },
  { "qk_layernorm", PS_KEY_MODEL, "qk_norm", "=true" },
  { "attention_backend", PS_KEY_MODEL, "flash_attention",
    "unfused=false AttnBackend.unfused=false flash=true fused=true auto=true local=false AttnBackend.flash=true "
    "AttnBackend.fused=true AttnBackend.auto=true AttnBackend.local=false" },
  { "vocab_size padded_vocab_size", PS_KEY_MODEL, "vocabulary", NULL },
  { "max_position_embeddings", PS_KEY_SETTING, "positions", NULL },
  { "untie_embeddings_and_output_weights", PS_KEY_MODEL, "tied", "=false true=false false=true" },
  { "share_embeddings_and_output_weights", PS_KEY_MODEL, "tied", "=true" },
  { "swiglu", PS_KEY_SETTING, "swiglu", NULL },
  { "gated_linear_unit", PS_KEY_SETTING, "swiglu", NULL },
  { "squared_relu", PS_KEY_SETTING, "squared-relu", NULL },
  { "attention_output_gate", PS_KEY_MODEL, "attention_gate", "=true" },
  { "mamba_num_heads", PS_KEY_MODEL, "mamba_heads", NULL },
  { "mamba_head_dim", PS_KEY_MODEL, "mamba_head_size", NULL },
  { "mamba_state_dim", PS_KEY_MODEL, "mamba_state", NULL },
  { "mamba_num_groups", PS_KEY_MODEL, "mamba_groups", NULL },
  { "linear_num_key_heads", PS_KEY_MODEL, "delta_key_heads", NULL },
  { "linear_key_head_dim", PS_KEY_MODEL, "delta_key_size", NULL },
  { "linear_num_value_heads", PS_KEY_MODEL, "delta_value_heads", NULL },
  { "linear_value_head_dim", PS_KEY_MODEL, "delta_value_size", NULL },
  { "experimental_attention_variant", PS_KEY_SETTING, "variant", NULL },
  { "dsa_indexer_n_heads", PS_KEY_MODEL, "index_heads", NULL },
  { "dsa_indexer_head_dim", PS_KEY_MODEL, "index_size", NULL },
  { "dsa_indexer_topk", PS_KEY_MODEL, "index_top", NULL },
  { "moe_latent_size", PS_KEY_MODEL, "expert_latent", NULL },
  { "num_experts num_moe_experts", PS_KEY_MODEL, "experts_of_layer", NULL },
  { "moe_router_topk", PS_KEY_MODEL, "active_experts", NULL },
  { "moe_ffn_hidden_size", PS_KEY_MODEL, "expert_feed_forward", NULL },
  { "moe_shared_expert_intermediate_size", PS_KEY_MODEL, "shared_feed_forward", NULL },
  { "moe_shared_expert_gate", PS_KEY_MODEL, "shared_gate", "=true" },
  { "moe_expert_capacity_factor", PS_KEY_SETTING, "capacity", NULL },
  { "moe_pad_expert_input_to_capacity", PS_KEY_SETTING, "padded", NULL },
  { "moe_layer_freq", PS_KEY_SETTING, "expert-layers", NULL },
  { "linear_attention_freq", PS_KEY_SETTING, "linear-layers", NULL },
  { "window_attn_skip_freq", PS_KEY_SETTING, "full-layers", NULL },
  { "window_size", PS_KEY_SETTING, "window", NULL },
  { "softmax_type", PS_KEY_MODEL, "sinks", "learnable=true vanilla=false off-by-one=false" },
  { "normalization position_embedding_type", PS_KEY_SETTING, "rotary", "RMSNorm= LayerNorm= learned_absolute=" },
  { "disable_bias_linear", PS_KEY_SETTING, "no-biases", NULL },
  { "add_bias_linear", PS_KEY_SETTING, "no-biases", "=false true=false false=true" },
  { "add_qkv_bias", PS_KEY_SETTING, "qkv-bias", NULL },
  { "mtp_num_layers", PS_KEY_MODEL, "mtp", NULL },
  { "hybrid_layer_pattern hybrid_override_pattern", PS_KEY_SETTING, "pattern", NULL },
  { "sequence_parallel", PS_KEY_SETTING, "sequence-parallel", NULL },
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
  { "use_torch_fsdp2", PS_KEY_MATTERS, "give --zero 3", NULL },
  { "lora_rank peft", PS_KEY_MATTERS, "all weights are trained here", NULL },
  { "freeze_LM freeze_ViT", PS_KEY_MATTERS, "all weights are trained here", NULL },
  { "compile.enable training.compile", PS_KEY_MATTERS, "kernels are not fused by a compiler here", NULL },
  { "float8.enable_fsdp_float8_all_gather quantize.linear.float8.enable_fsdp_float8_all_gather", PS_KEY_MATTERS,
    "give --precision fp8", NULL },
  { "high_priority_stream_groups", PS_KEY_HARMLESS, NULL, NULL },
  { "expert_tensor_parallel_size parallelism.expert_tensor_parallel_degree", PS_KEY_SETTING, "expert-tensor", NULL },

  /* Harmless: data, schedule of learning, files, logs, kernels that all have */
  { "fp4_recipe moe_grouped_gemm moe_router_pre_softmax ckpt_format spec reuse_grad_buf_for_mxfp8_param_ag "
    "moe_router_dtype "
    "moe_router_load_balancing_type moe_aux_loss_coeff moe_z_loss_coeff moe_permute_fusion moe_router_fusion "
    "moe_router_score_function moe_router_enable_expert_bias moe_router_bias_update_rate moe_router_num_groups "
    "moe_router_group_topk moe_router_topk_scaling_factor moe_per_layer_logging moe_shared_expert_overlap "
    "moe_token_drop_policy mtp_loss_scaling_factor transformer_impl use_mcore_models use_flash_attn "
    "no_masked_softmax_fusion masked_softmax_fusion no_bias_swiglu_fusion bias_swiglu_fusion no_bias_gelu_fusion "
    "bias_dropout_fusion no_bias_dropout_fusion no_rope_fusion apply_rope_fusion attention_softmax_in_fp32 "
    "gradient_accumulation_fusion no_gradient_accumulation_fusion apply_layernorm_1p norm_epsilon layernorm_epsilon "
    "rotary_base rotary_percent rotary_seq_len_interpolation_factor use_rotary_position_embeddings rope_type "
    "use_rope_scaling rope_scaling_factor mscale mscale_all_dim rotary_scaling_factor beta_fast beta_slow "
    "no_position_embedding make_vocab_size_divisible_by te_rng_tracker manual_gc manual_gc_interval "
    "distributed_backend distributed_timeout_minutes master_addr master_port node_rank rdzv_id rdzv_backend "
    "rdzv_endpoint rdzv_conf max_restarts tee log_dir role hostfile local_addr local_ranks_filter no_python "
    "async_tensor_model_parallel_allreduce exit_on_missing_checkpoint enable_experimental calculate_per_token_loss "
    "ddp_bucket_size ddp_num_buckets ddp_average_in_collective check_for_nan_in_loss_and_grad "
    "no_check_for_nan_in_loss_and_grad rerun_mode use_pytorch_profiler align_grad_reduce align_param_gather "
    "no_create_attention_mask_in_dataloader init_method_std init_method_xavier_uniform use_fused_weighted_squared_relu "
    "cross_entropy_loss_fusion_impl kitchen_config_file fp8_margin fp8_interval fp8_amax_history_len "
    "fp8_amax_compute_algo first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 "
    "keep_fp8_transpose_cache keep_fp8_weight_transpose_cache cuda_graph_warmup_steps is_hybrid_model "
    "attention_dropout_p mock_data",
    PS_KEY_HARMLESS, NULL, NULL },
  { "train_iters train_samples exit_interval exit_duration_in_mins lr min_lr lr_decay_style lr_decay_iters "
    "lr_decay_samples lr_warmup_iters lr_warmup_samples lr_warmup_fraction lr_warmup_init lr_wsd_decay_style "
    "lr_wsd_decay_iters lr_wsd_decay_samples weight_decay weight_decay_incr_style start_weight_decay end_weight_decay "
    "clip_grad adam_beta1 adam_beta2 adam_eps muon_momentum override_opt_param_scheduler "
    "use_checkpoint_opt_param_scheduler "
    "seed loss_scale initial_loss_scale min_loss_scale loss_scale_window data_path train_data_path valid_data_path "
    "test_data_path data_cache_path data_args_path per_split_data_args_path split vocab_file merge_file tokenizer_type "
    "tokenizer_model tokenizer_name_or_path tiktoken_pattern tiktoken_num_special_tokens num_workers dataloader_type "
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
    "enable_one_logger attention_dropout_rng job_name deepspeed deepspeed_config",
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
    "training.disable_cuda_graphs training.dtype model.hf_assets_path model.tokenizer_path model.converters "
    "model.print_after_conversion "
    "parallelism.disable_loss_parallel parallelism.enable_async_tensor_parallel "
    "parallelism.context_parallel_rotate_method parallelism.enable_compiled_autograd activation_checkpoint. "
    "compile. float8. quantize. memory_estimation.",
    PS_KEY_HARMLESS, NULL, NULL },
};

void ps_launch_facts_free (PsLaunchFacts *facts)
{
  if (facts == NULL)
    return;
  g_clear_pointer (&facts->keys, g_ptr_array_unref);
  g_hash_table_unref (facts->values);
  g_hash_table_unref (facts->sources);
  g_ptr_array_unref (facts->matters);
  g_ptr_array_unref (facts->strange);
  g_free (facts);
}

/* The row of a key; "metrics." has all keys that begin with it. */
static const PsKeyRow *find_row (const char *key)
{
  const PsKeyRow *section = NULL;
  const gsize n = strlen (key);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (const char *name = rows[i].keys; *name != '\0'; name += strspn (name, " ")) {
      gsize length = strcspn (name, " ");

      if (length == n && strncmp (name, key, n) == 0)
        return &rows[i];
      if (length < n && length > 0 && name[length - 1] == '.' && strncmp (name, key, length) == 0 && section == NULL)
        section = &rows[i];
      name += length;
    }
  return section;
}

const PsKeyRow *ps_launch_key_row (PsLaunchForm form, const char *key)
{
  const char *point = form == PS_LAUNCH_YAML ? strrchr (key, '.') : NULL;
  const PsKeyRow *row = find_row (key), *own = point != NULL ? find_row (point + 1) : NULL;

  return (row == NULL || row->kind == PS_KEY_HARMLESS) && own != NULL ? own : row;
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

static gboolean take_key (PsLaunchFacts *facts, PsLaunchKey *key, GError **error)
{
  const PsKeyRow *row = ps_launch_key_row (facts->form, key->key);

  if (row == NULL && facts->form != PS_LAUNCH_LOG && facts->form != PS_LAUNCH_YAML)
    g_ptr_array_add (facts->strange, key);
  if (row == NULL || row->kind == PS_KEY_HARMLESS)
    return TRUE;
  g_autofree char *value = translate (row, key->value);
  gboolean says = value != NULL && !g_str_equal (value, "false") && !g_str_equal (value, "0")
                  && !g_str_equal (value, "none") && !g_str_equal (value, "[]");
  if (row->kind == PS_KEY_MATTERS) {
    if (says)
      g_ptr_array_add (facts->matters, key);
    return TRUE;
  }
  if (key->unknown != NULL && !g_str_has_prefix (row->fact, "gpus") && !g_str_equal (row->fact, "nodes"))
    return ps_refuse_at (ps_launch_place (facts, key), error, "%s: %s", key->key, key->unknown);
  if (value == NULL || key->unknown != NULL)
    return TRUE;
  g_hash_table_insert (facts->sources, (gpointer)row->fact, key);
  g_hash_table_insert (facts->values, (gpointer)row->fact, g_steal_pointer (&value));
  return TRUE;
}

PsLaunchFacts *ps_launch_facts (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (PsLaunchFacts) facts = g_new0 (PsLaunchFacts, 1);

  facts->where = where;
  facts->form = form;
  facts->values = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  facts->sources = g_hash_table_new (g_str_hash, g_str_equal);
  facts->matters = g_ptr_array_new ();
  facts->strange = g_ptr_array_new ();
  facts->keys = ps_launch_keys (where, text, form, error);
  if (facts->keys == NULL)
    return NULL;
  for (guint i = 0; i < facts->keys->len; i++)
    if (!take_key (facts, facts->keys->pdata[i], error))
      return NULL;
  return g_steal_pointer (&facts);
}

const char *ps_launch_key_reason (const char *key)
{
  const PsKeyRow *row = find_row (key);
  const char *point = strrchr (key, '.');

  return (row != NULL && row->kind == PS_KEY_MATTERS) || point == NULL ? row->fact : find_row (point + 1)->fact;
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

  if (value == NULL || *error != NULL)
    return otherwise;
  gint64 count = g_ascii_strtoll (value, &end, 10);
  if (end == value || *end != '\0' || count < -1 || count > G_MAXINT)
    refuse_fact (error, facts, fact, "'%.60s' is no number that it can have", value);
  return count;
}

const char *ps_launch_precision (const PsLaunchFacts *facts)
{
  const char *recipe = ps_launch_fact (facts, "fp8-recipe");
  guint precision;

  if (ps_launch_is (facts, "fp4"))
    return "nvfp4";
  if (ps_launch_is (facts, "fp8"))
    return recipe != NULL && ps_precision_parse ("", recipe, &precision, NULL) ? recipe : "fp8";
  return ps_launch_is (facts, "fp16") ? "fp16" : ps_launch_is (facts, "bf16") ? "bf16" : "fp32";
}

gboolean ps_launch_has_model (const PsLaunchFacts *facts)
{
  return ps_launch_fact (facts, "hidden") != NULL;
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
  for (const char *at = text; *at != '\0'; at += strspn (at, "()+ ,]")) {
    gboolean list = *at == '[';
    const char *open = list ? at + 1 : at, *close = list ? strpbrk (open, "])") : open + 1;
    gint64 count = 1;

    if (close == NULL)
      return FALSE;
    gsize length = (gsize)(close - open);
    const char *times = list ? close + 1 : close;
    if (strchr ("()+ ,", *at) != NULL) {
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
  const char *groups = ps_launch_is (facts, "grouped") ? ps_launch_fact (facts, "groups") : NULL;
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

/* Megatron-LM takes 4 times the width, of SwiGLU two thirds of that in multiples of 64 (training/arguments.py). */
static void add_usual_width (const PsLaunchFacts *facts, GString *ini)
{
  gint64 hidden = g_ascii_strtoll (ps_launch_fact (facts, "hidden"), NULL, 10);

  if (ps_launch_fact (facts, "feed_forward") == NULL)
    g_string_append_printf (ini, "feed_forward = %" G_GINT64_FORMAT "\n",
                            ps_launch_is (facts, "swiglu") ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
  if (ps_launch_is (facts, "experts_of_layer") && ps_launch_fact (facts, "active_experts") == NULL)
    add_line (ini, "active_experts", "2");
  if (ps_launch_is (facts, "experts_of_layer") && ps_launch_fact (facts, "expert_feed_forward") == NULL)
    add_line (ini, "expert_feed_forward",
              ps_launch_fact (facts, "feed_forward") != NULL ? ps_launch_fact (facts, "feed_forward") : "0");
  if (ps_launch_fact (facts, "tied") == NULL)
    add_line (ini, "tied", "true");
  if (ps_launch_fact (facts, "flash_attention") == NULL)
    add_line (ini, "flash_attention", "true");
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
  if (!ps_launch_has_model (facts))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: defines no model (hidden_size); give --model", where);
  g_autofree char *pattern = add_pattern (facts, ini, error);
  if (pattern == NULL)
    return NULL;
  if (ps_launch_fact (facts, "vocabulary") == NULL)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: says no vocab_size, which its tokenizer would; give --model",
                           where);
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
  add_usual_width (facts, ini);
  const char *sequence = ps_launch_fact (facts, "sequence"), *size = ps_launch_fact (facts, "microbatch-size");
  add_line (ini, "sequence", sequence != NULL ? sequence : "4096");
  add_line (ini, "microbatch_size", size != NULL ? size : "1");
  add_line (ini, "precision", ps_launch_precision (facts));
  add_line (ini, "pattern", pattern);
  return g_string_free (g_steal_pointer (&ini), FALSE);
}
