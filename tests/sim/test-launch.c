/* Tests of plan.h: the table of what frameworks ask of a run, and the launches that tell them of it. */
#include "error-rig.h"

#include <pipesim/formats.h>
#include <pipesim/plan.h>

#include <string.h>

/* A run by hand: Llama-like, 16 layers, or with experts; each case changes what it is about. */
typedef struct {
  PsModel model;
  PsSetting *setting;
  PsStageShape shapes[16];
  PsSchedule *order;
  PsLaunch launch;
} Rig;

static void rig_clear (Rig *rig)
{
  ps_schedule_free (rig->order);
  ps_setting_free (rig->setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rig, rig_clear)

static void begin (Rig *rig, const char *schedule, guint p, guint v, guint m)
{
  rig->model = (PsModel){ .name = (char *)"small",
                          .layers = 16,
                          .hidden = 64,
                          .heads = 8,
                          .kv_heads = 8,
                          .sequence = 64,
                          .feed_forward = 128,
                          .vocabulary = 100,
                          .microbatch_size = 1,
                          .precision = PS_PRECISION_BF16,
                          .mlp = PS_MLP_SWIGLU,
                          .flash_attention = TRUE };
  rig->setting = ps_setting_new ();
  rig->setting->n_devices = p;
  rig->setting->n_chunks = v;
  rig->setting->n_microbatches = m;
  g_assert_true (ps_model_split (&rig->model, p * v, rig->shapes, NULL));
  rig->launch = (PsLaunch){ .setting = rig->setting,
                            .model = &rig->model,
                            .shapes = rig->shapes,
                            .n_devices = p,
                            .n_chunks = v,
                            .schedule = schedule };
}

/* The schedule, once the setting is complete. */
static void generate (Rig *rig)
{
  PsFamilySetting size = { .n_devices = rig->launch.n_devices,
                           .n_microbatches = rig->setting->n_microbatches,
                           .n_chunks = rig->launch.n_chunks,
                           .group_size = rig->setting->group_size,
                           .defer_head = rig->setting->defer_head };

  ps_schedule_free (rig->order);
  rig->order = fine (ps_family_generate (ps_family_find (rig->launch.schedule), &size, &error));
  rig->launch.order = rig->order;
}

static char *write_launch (Rig *rig, const char *framework)
{
  generate (rig);
  return fine (ps_launch_write (framework, &rig->launch, &error));
}

static void assert_line (const char *text, const char *line, gboolean there)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  if (g_strv_contains ((const char *const *)lines, line) != there)
    g_error ("'%s' %s in\n%s", line, there ? "is not" : "is", text);
}

static void with_experts (Rig *rig)
{
  rig->model.experts = (PsExperts){ .count = 8, .active = 2, .feed_forward = 32, .imbalance = 1 };
  rig->setting->n_replicas = 4;
  rig->setting->n_experts = 4;
}

static void overlap (Rig *rig)
{
  with_experts (rig);
  rig->setting->n_experts = 1;
}

static void overlap_full (Rig *rig)
{
  with_experts (rig);
  rig->setting->recompute = PS_RECOMPUTE_FULL;
}

static void overlap_fp32 (Rig *rig)
{
  with_experts (rig);
  rig->model.precision = PS_PRECISION_FP32;
}

static void odd_contexts (Rig *rig)
{
  rig->setting->n_context = 2;
  rig->model.sequence = 66;
}

static void mtp_too_early (Rig *rig)
{
  rig->model.mtp = 1;
  rig->shapes[1].n_mtp = 1;
}

static void late_embedding (Rig *rig)
{
  rig->shapes[0].embedding = FALSE;
}

static void whole_sequences (Rig *rig)
{
  with_experts (rig);
  rig->setting->n_tensor = 2;
  rig->model.whole_sequences = TRUE;
}

static void overlapped_whole_sequences (Rig *rig)
{
  rig->setting->n_tensor = 2;
  rig->setting->tp_comm_overlap = TRUE;
  rig->model.whole_sequences = TRUE;
}

static void in_fp16 (Rig *rig)
{
  rig->model.precision = PS_PRECISION_FP16;
}

static void in_fp8 (Rig *rig)
{
  rig->model.precision = PS_PRECISION_FP8;
}

static void replicated_experts (Rig *rig)
{
  with_experts (rig);
  rig->setting->zero = 0;
}

static void few_keys (Rig *rig)
{
  rig->model.kv_heads = 1;
  rig->setting->n_tensor = 2;
}

static void sharded_gradients (Rig *rig)
{
  rig->setting->cluster = g_strdup ("h100-80gb");
  rig->setting->n_replicas = 2;
  rig->setting->zero = 2;
}

static void deferred (Rig *rig)
{
  rig->setting->defer_head = 2;
}

/* One row of the table each; the messages say what would be right and where that stands. */
static void test_refusals (void)
{
  static const struct {
    const char *framework, *schedule;
    guint p, v, m;
    void (*change) (Rig *rig);
    const char *message;
  } cases[] = {
    { "megatron-gpt", "interleaved", 4, 2, 3, NULL,
      "-m 3: with virtual stages it wants p microbatches or more*schedules*" },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, NULL,
      "schedule 'interleaved-overlap': is for models with experts*" },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, overlap, "*give --experts 2 or more*" },
    { "megatron-gpt", "interleaved-overlap-w", 4, 2, 8, overlap_full, "--recompute full: is not available with*" },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, overlap_fp32,
      "--precision fp32: interleaved-overlap wants fp16,*" },
    { "megatron-gpt", "interleaved-overlap", 1, 2, 8, with_experts, "-p 1: one device overlaps whole microbatches*" },
    { "megatron-gpt", "1f1b", 1, 1, 8, deferred, "--defer-head 2: needs a pipeline*" },
    { "megatron-gpt", "1f1b", 4, 1, 8, odd_contexts, "--sequence 66: wants a multiple of 2 contexts*" },
    { "megatron-gpt", "interleaved", 4, 2, 8, mtp_too_early, "--layout *: multi-token prediction goes in one stage*" },
    { "megatron-gpt", "1f1b", 4, 1, 8, late_embedding, "--layout *: the embedding goes in the first stage*" },
    { "megatron-gpt", "1f1b", 4, 1, 8, whole_sequences, "model 'small': experts with --tensor need sequence*" },
    { "megatron-gpt", "1f1b", 4, 1, 8, overlapped_whole_sequences, "--tp-comm-overlap: needs sequence parallelism*" },
    { "torchtitan", "1f1b", 4, 1, 8, in_fp16, "--precision fp16: it trains in bf16 or fp32*" },
    { "torchtitan", "1f1b", 4, 1, 8, in_fp8, "--precision fp8: is not known there; megatron has it" },
    { "torchtitan", "1f1b", 4, 1, 8, replicated_experts, "--experts 4: wants a divisor of t c times*" },
    { "torchtitan", "1f1b", 4, 1, 8, few_keys, "--tensor 2: does not divide kv_heads" },
    { "torchtitan", "1f1b", 4, 1, 8, mtp_too_early, "model 'small': has multi-token prediction*" },
    { "torchtitan", "gpipe", 1, 1, 8, NULL, "schedule 'gpipe': one device has no pipeline*" },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, NULL, "--precision bf16: without sharded replicas*" },
    { "torchtitan", "1f1b", 4, 1, 3, NULL, "-m 3: the class wants as many as stages, or a CSV*" },
    { "torchtitan", "interleaved", 4, 2, 9, NULL, "-m 9: the class wants a multiple of m / p, or a CSV*" },
    { "torchtitan", "dualpipe-v", 4, 2, 7, NULL, "-m 7: the class wants as many as stages*" },
    { "deepspeed", "1f1b", 4, 1, 8, sharded_gradients, "--zero 2: its pipelines refuse stages 2 and 3*" },
    { "deepspeed", "1f1b", 4, 1, 8, odd_contexts, "--context 2: its pipelines do not share sequences" },
    { "deepspeed", "1f1b", 4, 1, 8, with_experts, "--experts 4: its pipelines do not share experts" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Rig) rig = { .order = NULL };

    begin (&rig, cases[i].schedule, cases[i].p, cases[i].v, cases[i].m);
    if (cases[i].change != NULL)
      cases[i].change (&rig);
    g_autofree char *message = g_strdup_printf ("--to %s: %s", cases[i].framework, cases[i].message);
    refused (ps_launch_write (cases[i].framework, &rig.launch, &error), PS_ERROR_USAGE, message);
  }
}

static void bypassed (Rig *rig)
{
  rig->setting->sync = PS_SYNC_BYPASS;
}

static void offloaded (Rig *rig)
{
  rig->setting->offload = 0.5;
}

static void two_contexts (Rig *rig)
{
  rig->setting->n_context = 2;
}

static void contexts_of_68 (Rig *rig)
{
  two_contexts (rig);
  rig->model.sequence = 68;
}

static void tensor_of_66 (Rig *rig)
{
  rig->setting->n_tensor = 2;
  rig->model.sequence = 66;
}

static void tensor_of_65 (Rig *rig)
{
  tensor_of_66 (rig);
  rig->model.sequence = 65;
}

static void tensor_and_contexts_of_68 (Rig *rig)
{
  rig->setting->n_tensor = rig->setting->n_context = 2;
  rig->model.sequence = 68;
}

static void mtp_of (Rig *rig, guint n)
{
  with_experts (rig);
  rig->model.mtp = n;
  rig->shapes[rig->launch.n_devices * rig->launch.n_chunks - 1].n_mtp = n;
}

static void one_mtp (Rig *rig)
{
  mtp_of (rig, 1);
}

static void two_mtp (Rig *rig)
{
  mtp_of (rig, 2);
}

/* A layer of 16 for each letter. */
static void single_units (Rig *rig)
{
  rig->model.pattern = (char *)"*-*-*-*-*-*-*-*-";
}

static void linear_units (Rig *rig)
{
  rig->model.pattern = (char *)"l-l-l-l-l-l-l-l-l-l-l-l-l-l-l-l-";
}

static void split_losses (Rig *rig)
{
  mtp_of (rig, 2);
  rig->shapes[2].head = 1;
}

static void overlapped_single_units (Rig *rig)
{
  with_experts (rig);
  rig->model.pattern = (char *)"*E*E*E*E*E*E*E*E";
}

static void gelu_mtp (Rig *rig)
{
  mtp_of (rig, 1);
  rig->model.mlp = PS_MLP_GELU;
}

static void mtp_before_the_end (Rig *rig)
{
  rig->model.mtp = 1;
  rig->shapes[rig->launch.n_devices * (rig->launch.n_chunks - 1)].n_mtp = 1; /* the first of the last chunks */
}

static void tensor (Rig *rig)
{
  rig->setting->n_tensor = 2;
}

static void tensor_experts (Rig *rig)
{
  with_experts (rig);
  rig->setting->n_tensor = 2;
}

static void two_experts (Rig *rig)
{
  with_experts (rig);
  rig->setting->n_experts = 2;
}

static void sharded_experts (Rig *rig)
{
  with_experts (rig);
  rig->setting->cluster = g_strdup ("h100-80gb");
  rig->setting->zero = 1;
}

static void two_context_experts (Rig *rig)
{
  two_experts (rig);
  two_contexts (rig);
}

static void in_fp32 (Rig *rig)
{
  rig->model.precision = PS_PRECISION_FP32;
}

static void whole_replicas (Rig *rig)
{
  rig->setting->n_replicas = 2;
  rig->setting->zero = 0;
  rig->model.precision = PS_PRECISION_FP32;
}

static void sharded_replicas (Rig *rig)
{
  whole_replicas (rig);
  rig->setting->zero = 1;
}

static void bf16_replicas (Rig *rig)
{
  sharded_replicas (rig);
  rig->model.precision = PS_PRECISION_BF16;
}

static void shared_latent (Rig *rig)
{
  few_keys (rig);
  rig->model.latent = (PsLatent){ .kv_rank = 16, .nope_size = 8, .rope_size = 8, .value_size = 8 };
}

static void stage_1 (Rig *rig)
{
  sharded_gradients (rig);
  rig->setting->zero = 1;
}

static void stage_3 (Rig *rig)
{
  sharded_gradients (rig);
  rig->setting->zero = 3;
}

static void deferred_in_one (Rig *rig)
{
  rig->setting->defer_head = 1;
}

static void selective (Rig *rig)
{
  with_experts (rig);
  rig->setting->recompute = PS_RECOMPUTE_SELECTIVE;
}

static void mlp_again (Rig *rig)
{
  rig->setting->recompute = PS_RECOMPUTE_MLP;
}

static void layers_again (Rig *rig)
{
  rig->setting->recompute = PS_RECOMPUTE_FULL | 2 << PS_RECOMPUTE_LAYERS;
}

static void groups_again (Rig *rig)
{
  rig->setting->recompute = PS_RECOMPUTE_FULL | PS_RECOMPUTE_UNIFORM | 2 << PS_RECOMPUTE_LAYERS;
}

static void moe_again (Rig *rig)
{
  with_experts (rig);
  rig->setting->recompute = PS_RECOMPUTE_MOE;
}

static void moved (Rig *rig)
{
  rig->setting->offload_modules = PS_OFFLOAD_CORE_ATTN | PS_OFFLOAD_ATTN_PROJ;
}

static void moved_wrong (Rig *rig)
{
  rig->setting->offload_modules = PS_OFFLOAD_ATTN_PROJ;
}

static void moved_again (Rig *rig)
{
  moved (rig);
  rig->setting->recompute = PS_RECOMPUTE_FULL;
}

static void overlap_fp16 (Rig *rig)
{
  with_experts (rig);
  rig->model.precision = PS_PRECISION_FP16;
}

static void late_head (Rig *rig)
{
  rig->shapes[3].head = FALSE;
}

static void mtp_in_the_first_chunk (Rig *rig)
{
  rig->model.mtp = 1;
  rig->shapes[3].n_mtp = 1; /* of the last device */
}

/* Both sides of each precondition's limit: the option that is blamed, or NULL where the run is taken. */
static void test_limits (void)
{
  static const struct {
    const char *framework, *schedule;
    guint p, v, m;
    void (*change) (Rig *rig);
    const char *blamed;
  } cases[] = {
    { "megatron-gpt", "1f1b", 4, 1, 1, NULL, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, offloaded, "--offload 0.5: *" },
    { "megatron-gpt", "1f1b", 4, 1, 8, mlp_again, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, layers_again, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, groups_again, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, moved, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, moved_wrong, "--offload-modules attn_proj: attn_proj goes with core_attn *" },
    { "megatron-gpt", "1f1b", 4, 1, 8, moved_again, "--offload-modules core_attn+attn_proj: *" },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, moe_again, "--recompute moe: *" },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, mlp_again, "schedule *" },
    { "torchtitan", "1f1b", 4, 1, 8, mlp_again, "--recompute mlp: it chooses operators, *" },
    { "torchtitan", "1f1b", 4, 1, 8, layers_again, "--recompute full:layers=2: it has full *" },
    { "torchtitan", "1f1b", 4, 1, 8, moved, "--offload-modules core_attn+attn_proj: is not *" },
    { "deepspeed", "1f1b", 4, 1, 8, mlp_again, "--recompute mlp: its pipelines know *" },
    { "deepspeed", "1f1b", 4, 1, 8, layers_again, "--recompute full:layers=2: its pipelines know *" },
    { "deepspeed", "1f1b", 4, 1, 8, groups_again, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, bypassed, "--sync bypass: *" },
    { "torchtitan", "1f1b", 4, 1, 8, bypassed, "--sync bypass: *" },
    { "deepspeed", "1f1b", 4, 1, 8, bypassed, "--sync bypass: *" },
    { "megatron-gpt", "1f1b", 4, 1, 8, late_head, "--layout *" },
    { "torchtitan", "1f1b", 4, 1, 8, late_head, "--layout *" },
    { "megatron-gpt", "interleaved", 4, 2, 4, NULL, NULL }, /* m = p */
    { "megatron-gpt", "interleaved", 1, 2, 1, NULL, NULL },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, two_experts, NULL },
    { "megatron-gpt", "interleaved-overlap-w", 4, 2, 8, selective, NULL },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, overlap_fp16, NULL },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, one_mtp, NULL },
    { "megatron-gpt", "interleaved-overlap", 4, 2, 8, two_mtp,
      "model 'small': interleaved-overlap takes one module *" },
    { "megatron-gpt", "interleaved", 4, 2, 8, two_mtp, NULL },
    { "megatron-gpt", "interleaved", 4, 2, 8, gelu_mtp, "model 'small': multi-token prediction needs rotary *" },
    { "megatron-gpt", "interleaved", 4, 2, 8, mtp_before_the_end, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, split_losses, "--layout *: losses go in one stage *" },
    { "megatron-gpt", "1f1b", 4, 1, 8, single_units, "model 'small': has layers of one unit each*" },
    { "megatron-gpt", "1f1b", 4, 1, 8, linear_units, "model 'small': has units that *" },
    { "megatron", "1f1b", 4, 1, 8, linear_units, "model 'small': has units that *" },
    { "megatron", "1f1b", 4, 1, 8, single_units, NULL },
    { "megatron", "interleaved", 4, 2, 8, two_mtp, NULL },
    { "megatron", "interleaved", 4, 2, 8, mtp_before_the_end, "--layout *: multi-token prediction goes in the last *" },
    { "megatron", "interleaved-overlap", 4, 2, 8, two_experts, NULL },
    { "megatron", "interleaved-overlap", 4, 2, 8, overlapped_single_units,
      "--layout *: interleaved-overlap wants both units of a layer *" },
    { "megatron-gpt", "1f1b", 2, 1, 8, deferred_in_one, NULL },
    { "megatron-gpt", "1f1b", 1, 1, 8, deferred_in_one, "--defer-head 1: *" },
    { "megatron-gpt", "1f1b", 4, 1, 8, contexts_of_68, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, tensor_experts, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, in_fp8, NULL },
    { "megatron-gpt", "1f1b", 4, 1, 8, few_keys, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, in_fp32, NULL },
    { "torchtitan", "1f1b", 4, 1, 4, NULL, NULL },  /* m = p */
    { "torchtitan", "gpipe", 4, 1, 3, NULL, NULL }, /* a CSV */
    { "torchtitan", "gpipe", 1, 1, 1, NULL, NULL }, /* one microbatch is in turn */
    { "torchtitan", "dualpipe-v", 4, 2, 8, NULL, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, two_contexts, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, odd_contexts, "--sequence 66: *" },
    { "torchtitan", "1f1b", 4, 1, 8, tensor_of_66, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, tensor_of_65, "--sequence 65: *" },
    { "torchtitan", "1f1b", 4, 1, 8, tensor_and_contexts_of_68, "--sequence 68: *" }, /* 8 are wanted */
    { "torchtitan", "1f1b", 4, 1, 8, shared_latent, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, sharded_experts, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, two_context_experts, NULL }, /* two contexts, two GPUs for the experts */
    { "torchtitan-0.2", "1f1b", 1, 1, 8, NULL, NULL },
    { "torchtitan-0.2", "1f1b", 1, 1, 8, tensor, "--precision bf16: *" },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, in_fp32, NULL },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, two_contexts, NULL },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, whole_replicas, "--zero 0: whole replicas *" },
    { "torchtitan-0.2", "1f1b", 1, 1, 8, whole_replicas, NULL },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, sharded_replicas, NULL },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, bf16_replicas, NULL },
    { "torchtitan", "1f1b", 4, 1, 8, whole_replicas, NULL },
    { "deepspeed", "1f1b", 4, 1, 1, NULL, NULL },
    { "deepspeed", "1f1b", 4, 1, 8, in_fp16, NULL },
    { "deepspeed", "1f1b", 4, 1, 8, in_fp8, "--precision fp8: *" },
    { "deepspeed", "1f1b", 4, 1, 8, stage_1, NULL },
    { "deepspeed", "1f1b", 4, 1, 8, stage_3, "--zero 3: *" },
    { "deepspeed", "1f1b", 4, 1, 8, one_mtp, "model 'small': has multi-token *" },
    { "deepspeed", "1f1b", 4, 1, 8, deferred_in_one, "--defer-head 1: *" },
    { "megatron-gpt", "interleaved", 4, 2, 8, mtp_in_the_first_chunk, "--layout *: multi-token prediction goes in *" },
    { "torchtitan-0.2", "1f1b", 4, 1, 8, sharded_experts, NULL },
    { "deepspeed", "interleaved", 4, 1, 8, NULL, NULL }, /* as 1f1b */
    { "deepspeed", "interleaved", 4, 2, 8, NULL, "schedule 'interleaved' is not available there; 1f1b *" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Rig) rig = { .order = NULL };
    g_autofree char *message = g_strdup_printf ("--to %s: %s", cases[i].framework, cases[i].blamed), *text = NULL;
    g_autoptr (GError) error = NULL;

    begin (&rig, cases[i].schedule, cases[i].p, cases[i].v, cases[i].m);
    if (cases[i].change != NULL)
      cases[i].change (&rig);
    generate (&rig);
    text = ps_launch_write (cases[i].framework, &rig.launch, &error);
    g_test_message ("%u: %s", i, error != NULL ? error->message : "taken");
    if (cases[i].blamed == NULL)
      g_assert_no_error (error);
    else
      assert_error (&error, PS_ERROR_USAGE, message);
  }
}

/* p = 4: m = 6 goes in one group of 6, 8 in groups of p; 9 in groups of 5 and 4. */
static void test_groups (void)
{
  static const guint groups[][2] = { { 6, 6 }, { 9, 5 }, { 21, 7 }, { 8, 0 }, { 12, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (groups); i++) {
    g_auto (Rig) rig = { .order = NULL };
    g_autofree char *flag = g_strdup_printf ("--microbatch-group-size-per-virtual-pipeline-stage %u", groups[i][1]);

    begin (&rig, "interleaved", 4, 2, groups[i][0]);
    g_autofree char *text = write_launch (&rig, "megatron-gpt");
    assert_line (text, "--num-layers-per-virtual-pipeline-stage 2", TRUE);
    if (groups[i][1] > 0)
      assert_line (text, flag, TRUE);
    else
      g_assert_null (strstr (text, "group-size"));
  }
}

static void test_megatron (void)
{
  g_auto (Rig) single = { .order = NULL }, experts = { .order = NULL }, biased = { .order = NULL };

  begin (&single, "interleaved", 1, 4, 8);
  single.model.tied = single.model.qk_norm = TRUE;
  single.model.window = 16;
  single.model.full_every = 2;
  g_autofree char *one = write_launch (&single, "megatron-gpt");
  assert_line (one, "# launch: torchrun --nnodes 1 --nproc-per-node 1 pretrain_gpt.py", TRUE);
  assert_line (one, "--pipeline-model-parallel-size 1", TRUE);
  assert_line (one, "--window-size '(15,0)'", TRUE);
  assert_line (one, "--window-attn-skip-freq '([1,0]*8)'", TRUE);
  assert_line (one, "--qk-layernorm", TRUE);
  assert_line (one, "--untie-embeddings-and-output-weights", FALSE);
  g_assert_null (strstr (one, "virtual"));

  begin (&experts, "interleaved-overlap", 4, 2, 8);
  with_experts (&experts);
  experts.model.experts.dense_layers = 3;
  g_autofree char *mixed = write_launch (&experts, "megatron-gpt");
  assert_line (mixed, "--moe-token-dispatcher-type alltoall", TRUE);
  assert_line (mixed, "--expert-tensor-parallel-size 1", TRUE);
  assert_line (mixed, "--moe-layer-freq '([0]*3+[1]*13)'", TRUE);

  begin (&biased, "1f1b", 4, 1, 8);
  with_experts (&biased);
  biased.model.other_biases = TRUE;
  biased.setting->n_experts = 1;
  biased.setting->n_tensor = 2;
  g_autofree char *whole = write_launch (&biased, "megatron-gpt");
  assert_line (whole, "--expert-tensor-parallel-size 1", TRUE);
  assert_line (whole, "--disable-bias-linear", FALSE);
  assert_line (whole, "--use-tp-pp-dp-mapping", FALSE);
  g_assert_nonnull (strstr (whole, "\n# launch: CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun "));
}

/* What HybridModel and GPTModel read of one model: 4 layers on 2 devices; *: any text. */
static void test_forms (void)
{
  static const struct {
    const char *pattern;
    guint window, full_every, mtp;
    const char *schedule;
    const char *hybrid, *gpt; /* lines */
  } cases[] = {
    { NULL, 0, 0, 0, "1f1b", "--hybrid-layer-pattern '*E*E|*E*E'", "--num-layers 4" },
    { NULL, 0, 0, 2, "1f1b", "--hybrid-layer-pattern '*E*E|*E*E/*E/*E'", "--mtp-num-layers 2" },
    { NULL, 8, 2, 0, "1f1b", "--window-attn-skip-freq '([1,0,0,0]*2)'", "--window-attn-skip-freq '([1,0]*2)'" },
    { NULL, 8, 4, 0, "1f1b", "--window-attn-skip-freq '([1]*1+[0]*1+[1]*1+[0]*1+[1]*1+[0]*3)'",
      "--window-attn-skip-freq '([1]*3+[0]*1)'" },
    { "G-GEGE*E", 0, 0, 0, "1f1b", "--hybrid-layer-pattern 'G-GE|GE*E'", "--linear-attention-freq '([1]*3+[0]*1)'" },
    { "G-GEGE*E", 0, 0, 0, "1f1b", "--position-embedding-type rope", "--moe-layer-freq '([0]*1+[1]*3)'" },
    { "*-*E*-*E", 0, 0, 0, "1f1b", "--hybrid-layer-pattern '*-*E|*-*E'", "--moe-layer-freq '([0,1]*2)'" },
    { NULL, 0, 0, 1, "interleaved-overlap", "--hybrid-layer-pattern '[*E]|[*E]|[*E]|[*E]/*E'",
      "--num-layers-per-virtual-pipeline-stage 1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint form = 0; form < 2; form++) {
      g_auto (Rig) rig = { .order = NULL };
      guint v = g_str_equal (cases[i].schedule, "1f1b") ? 1 : 2;

      begin (&rig, cases[i].schedule, 2, v, 8);
      with_experts (&rig);
      rig.model.layers = 4;
      rig.model.pattern = (char *)cases[i].pattern;
      rig.model.window = cases[i].window;
      rig.model.full_every = cases[i].full_every;
      rig.model.mtp = cases[i].mtp;
      rig.model.delta = (PsDelta){ .key_heads = cases[i].pattern != NULL, .key_size = 1 };
      g_assert_true (ps_model_split (&rig.model, 2 * v, rig.shapes, NULL));
      g_autofree char *text = write_launch (&rig, form == 0 ? "megatron" : "megatron-gpt");
      assert_line (text, form == 0 ? cases[i].hybrid : cases[i].gpt, TRUE);
      g_assert_cmpint (strstr (text, "pretrain_hybrid.py") != NULL, ==, form == 0);
      g_assert_cmpint (strstr (text, "--spec megatron.core.models.hybrid") != NULL, ==, form == 0);
      g_assert_cmpint (strstr (text, "--num-layers 4") != NULL, ==, form == 1);
    }
}

/* Nodes of the cluster's 8 GPUs, or what there is of one. */
static void test_nodes (void)
{
  static const struct {
    guint p, t, d;
    const char *head;
  } cases[] = {
    { 4, 1, 1, "4 GPUs, 4 pipeline x 1 tensor x 1 data parallel\n# launch: torchrun --nnodes 1 --nproc-per-node 4 " },
    { 4, 2, 1,
      "8 GPUs, 4 pipeline x 2 tensor x 1 data parallel\n# launch: CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 1 "
      "--nproc-per-node 8 " },
    { 4, 1, 3, "12 GPUs, 4 pipeline x 1 tensor x 3 data parallel\n# launch: torchrun --nnodes 2 --nproc-per-node 6 " },
    { 8, 1, 2, "16 GPUs, 8 pipeline x 1 tensor x 2 data parallel\n# launch: torchrun --nnodes 2 --nproc-per-node 8 " },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Rig) rig = { .order = NULL };
    g_autofree char *head = g_strconcat ("# Megatron-LM: ", cases[i].head, NULL);

    begin (&rig, "1f1b", cases[i].p, 1, 8);
    rig.setting->cluster = g_strdup ("h100-80gb");
    rig.setting->n_tensor = cases[i].t;
    rig.setting->n_replicas = cases[i].d;
    rig.setting->replicas_adjacent = TRUE;
    g_autofree char *text = write_launch (&rig, "megatron-gpt");
    if (!g_str_has_prefix (text, head))
      g_error ("'%s' does not begin\n%s", head, text);
  }
}

/* Whole launches of the small model: 16 layers on 4 devices, microbatches of 2 sequences, 8 of them for each of 2
 * replicas, which is 32 sequences a step. */
static void test_whole (void)
{
  static const char *const frameworks[] = { "megatron-gpt", "torchtitan", "torchtitan-0.2", "deepspeed" };
  static const char *const lines[][24]
      = { { "--tensor-model-parallel-size 1",
            "--pipeline-model-parallel-size 4",
            "--num-layers 16",
            "--hidden-size 64",
            "--ffn-hidden-size 128",
            "--num-attention-heads 8",
            "--vocab-size 100",
            "--max-position-embeddings 64",
            "--untie-embeddings-and-output-weights",
            "--swiglu",
            "--normalization RMSNorm",
            "--position-embedding-type rope",
            "--disable-bias-linear",
            "--bf16",
            "--micro-batch-size 2",
            "--global-batch-size 32",
            "--seq-length 64",
            "--accumulate-allreduce-grads-in-fp32",
            "--use-distributed-optimizer",
            "--overlap-grad-reduce",
            NULL },
          { "--module MODULE", "--config CONFIG", "--training.local_batch_size 16", "--training.global_batch_size 32",
            "--training.seq_len 64", "--training.mixed_precision_param bfloat16",
            "--parallelism.data_parallel_replicate_degree 1", "--parallelism.data_parallel_shard_degree 2",
            "--parallelism.tensor_parallel_degree 1", "--parallelism.pipeline_parallel_degree 4",
            "--parallelism.pipeline_parallel_microbatch_size 2", "--parallelism.pipeline_parallel_schedule 1F1B",
            "--parallelism.module_fqns_per_model_part tok_embeddings,layers.0,layers.1,layers.2,layers.3 "
            "layers.4,layers.5,layers.6,layers.7 layers.8,layers.9,layers.10,layers.11 "
            "layers.12,layers.13,layers.14,layers.15,norm,lm_head",
            "activation_checkpoint:none", NULL },
          { "[training]", "local_batch_size = 16", "global_batch_size = 32", "seq_len = 64",
            "mixed_precision_param = \"bfloat16\"", "[activation_checkpoint]", "mode = \"none\"", "[parallelism]",
            "data_parallel_replicate_degree = 1", "data_parallel_shard_degree = 2", "tensor_parallel_degree = 1",
            "pipeline_parallel_degree = 4", "pipeline_parallel_schedule = \"1F1B\"",
            "  [\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\", \"layers.3\"],",
            "  [\"layers.12\", \"layers.13\", \"layers.14\", \"layers.15\", \"norm\", \"output\"],", "]", NULL },
          { "topology=PipeModelDataParallelTopology(num_pp=4, num_mp=1, num_dp=2)",
            "partition_method=\"type:TransformerLayer\"", "activation_checkpoint_interval=0",
            "  \"train_batch_size\": 32,", "  \"train_micro_batch_size_per_gpu\": 2,",
            "  \"gradient_accumulation_steps\": 8,", "  \"bf16\": { \"enabled\": true },",
            "  \"zero_optimization\": { \"stage\": 1 }", NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (frameworks); i++) {
    g_auto (Rig) rig = { .order = NULL };

    begin (&rig, "1f1b", 4, 1, 8);
    rig.setting->cluster = g_strdup ("h100-80gb");
    rig.setting->n_replicas = 2;
    rig.setting->zero = 1;
    rig.model.microbatch_size = 2;
    rig.setting->reduce = PS_REDUCE_OVERLAPPED;
    g_autofree char *text = write_launch (&rig, frameworks[i]);
    for (guint k = 0; lines[i][k] != NULL; k++)
      assert_line (text, lines[i][k], TRUE);
  }
}

/* Stages that are uneven: boundaries among embedding, layers and head. Selective recomputation of all kinds; a deferred
 * head whose stage has layers, or has none. */
static void test_uneven (void)
{
  g_auto (Rig) deepspeed = { .order = NULL }, full = { .order = NULL }, defer = { .order = NULL };
  g_auto (Rig) alone = { .order = NULL }, shared = { .order = NULL }, half = { .order = NULL };

  begin (&deepspeed, "1f1b", 4, 1, 8);
  deepspeed.shapes[0].n_layers = 3;
  deepspeed.shapes[1].n_layers = 5;
  g_autofree char *parts = write_launch (&deepspeed, "deepspeed");
  assert_line (parts, "parts=[0, 4, 9, 13, 18]", TRUE); /* 1 + 3, 5, 4, 4 + 1 */

  begin (&full, "1f1b", 4, 1, 8);
  full.setting->recompute = PS_RECOMPUTE_FULL;
  g_autofree char *again = write_launch (&full, "megatron-gpt");
  assert_line (again, "--recompute-granularity full", TRUE);
  assert_line (again, "--recompute-num-layers 1", TRUE);
  full.setting->recompute = PS_RECOMPUTE_FULL | 2 << PS_RECOMPUTE_LAYERS;
  g_autofree char *block = write_launch (&full, "megatron-gpt");
  assert_line (block, "--recompute-method block", TRUE);
  assert_line (block, "--recompute-num-layers 2", TRUE);
  full.setting->recompute |= PS_RECOMPUTE_UNIFORM;
  g_autofree char *groups = write_launch (&full, "megatron-gpt"), *interval = write_launch (&full, "deepspeed");
  assert_line (groups, "--recompute-method uniform", TRUE);
  assert_line (groups, "--recompute-num-layers 2", TRUE);
  assert_line (interval, "activation_checkpoint_interval=2", TRUE);
  full.setting->recompute = PS_RECOMPUTE_MLP | PS_RECOMPUTE_LAYERNORM;
  full.setting->offload_modules = PS_OFFLOAD_CORE_ATTN | PS_OFFLOAD_ATTN_PROJ;
  g_autofree char *modules = write_launch (&full, "megatron-gpt");
  assert_line (modules, "--recompute-granularity selective", TRUE);
  assert_line (modules, "--recompute-modules layernorm mlp", TRUE);
  assert_line (modules, "--recompute-num-layers 1", FALSE);
  assert_line (modules, "--fine-grained-activation-offloading", TRUE);
  assert_line (modules, "--offload-modules core_attn attn_proj", TRUE);
  assert_line (again, "--fp16", FALSE);
  assert_line (again, "--use-distributed-optimizer", FALSE);

  begin (&defer, "1f1b", 4, 1, 8);
  defer.setting->defer_head = 2;
  g_autofree char *late = write_launch (&defer, "megatron-gpt");
  assert_line (late, "--wgrad-deferral-limit 2", TRUE);
  g_assert_nonnull (strstr (late, "puts off W of the head alone, not of the layers before it"));
  begin (&alone, "1f1b", 4, 1, 8);
  alone.setting->defer_head = 2;
  alone.shapes[2].n_layers += alone.shapes[3].n_layers;
  alone.shapes[3].n_layers = 0;
  g_autofree char *head = write_launch (&alone, "megatron-gpt");
  g_assert_null (strstr (head, "puts off W of the head alone"));

  begin (&shared, "1f1b", 4, 1, 8);
  with_experts (&shared);
  shared.model.experts.shared = 2;
  shared.model.head_size = 16;
  g_autofree char *experts = write_launch (&shared, "megatron-gpt");
  assert_line (experts, "--moe-shared-expert-intermediate-size 64", TRUE);
  assert_line (experts, "--num-experts 8", TRUE);
  assert_line (experts, "--moe-router-topk 2", TRUE);
  assert_line (experts, "--moe-ffn-hidden-size 32", TRUE);
  assert_line (experts, "--kv-channels 16", TRUE);
  g_assert_null (strstr (experts, "--moe-layer-freq"));
  g_assert_null (strstr (experts, "--window-size"));

  begin (&half, "1f1b", 4, 1, 8);
  half.model.precision = PS_PRECISION_FP16;
  half.model.latent = (PsLatent){ .kv_rank = 16, .nope_size = 8, .rope_size = 4, .value_size = 12 };
  half.model.head_size = 16;
  g_autofree char *latent = write_launch (&half, "megatron-gpt");
  assert_line (latent, "--fp16", TRUE);
  assert_line (latent, "--bf16", FALSE);
  assert_line (latent, "--kv-lora-rank 16", TRUE);
  assert_line (latent, "--qk-head-dim 8", TRUE);
  assert_line (latent, "--qk-pos-emb-head-dim 4", TRUE);
  assert_line (latent, "--v-head-dim 12", TRUE);
  g_assert_null (strstr (latent, "--kv-channels"));
  g_assert_null (strstr (latent, "--moe-shared-expert"));
}

/* A CSV where the class refuses the run or has other groups; the name of 1F1B where interleaved has one chunk. */
static void test_torchtitan (void)
{
  static const struct {
    const char *schedule;
    guint v, m, group, defer;
    const char *name, *convert;
  } cases[] = {
    { "1f1b", 1, 8, 0, 0, "1F1B", NULL },
    { "interleaved", 1, 8, 0, 0, "1F1B", NULL },
    { "interleaved", 2, 8, 0, 0, "Interleaved1F1B", NULL },
    { "interleaved", 2, 10, 0, 0, "Interleaved1F1B", NULL }, /* two groups of 5, as PyTorch has them */
    { "interleaved", 2, 8, 8, 0, "PipelineScheduleMulti", "interleaved -p 4 -m 8 -v 2 --group 8" },
    { "interleaved", 2, 9, 0, 0, "PipelineScheduleMulti", "interleaved -p 4 -m 9 -v 2" },
    { "1f1b", 1, 3, 0, 0, "PipelineScheduleSingle", "1f1b -p 4 -m 3 -v 1" },
    { "1f1b", 1, 8, 0, 2, "PipelineScheduleSingle", "1f1b -p 4 -m 8 -v 1 --defer-head 2" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Rig) rig = { .order = NULL };
    g_autofree char *name = g_strconcat ("--parallelism.pipeline_parallel_schedule ", cases[i].name, NULL);

    begin (&rig, cases[i].schedule, 4, cases[i].v, cases[i].m);
    rig.setting->group_size = cases[i].group;
    rig.setting->defer_head = cases[i].defer;
    rig.setting->microbatch_size = 3;
    g_autofree char *text = write_launch (&rig, "torchtitan");
    g_autofree char *convert
        = g_strdup_printf ("# pipesim schedule convert %s --to torch-compute -o schedule.csv", cases[i].convert);
    assert_line (text, name, TRUE);
    assert_line (text, "--training.disable_cuda_graphs", TRUE);
    g_assert_true (g_str_has_suffix (text, "\nactivation_checkpoint:none\n"));
    if (cases[i].convert != NULL)
      assert_line (text, convert, TRUE);
    else
      g_assert_null (strstr (text, "convert"));
  }
}

/* Without a model only the schedule counts. */
static void test_lint (void)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (GPtrArray) findings = ps_findings_new ();

  setting->n_devices = 4;
  setting->n_microbatches = 3;
  ps_launch_lint (setting, "interleaved", findings);
  g_autofree char *some = ps_launch_runs_in (setting, "interleaved");
  g_assert_cmpuint (findings->len, ==, 1);
  g_assert_true (g_str_has_prefix (((const PsFinding *)findings->pdata[0])->what, "megatron: -m 3: "));
  g_assert_cmpstr (some, ==, "torchtitan, pytorch, colossalai");
  setting->n_microbatches = 8;
  ps_launch_lint (setting, "interleaved", findings);
  g_autofree char *all = ps_launch_runs_in (setting, "interleaved");
  g_autofree char *refusal = ps_launch_refusal ("deepspeed", setting, "interleaved");
  g_assert_cmpuint (findings->len, ==, 1);
  g_assert_cmpstr (all, ==, "megatron, torchtitan, pytorch, colossalai");
  g_assert_true (g_str_has_prefix (refusal, "schedule 'interleaved' is not available there; 1f1b"));
}

static void test_imply (void)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (ps_launch_imply ("torchtitan", setting, NULL) && setting->framework == PS_FRAMEWORK_NONE);
  g_assert_true (ps_launch_imply ("megatron-gpt", setting, NULL) && setting->framework == PS_FRAMEWORK_MEGATRON);
  g_assert_true (ps_launch_imply (NULL, setting, NULL) && setting->framework == PS_FRAMEWORK_MEGATRON);
  g_assert_false (ps_launch_imply ("deepspeed", setting, &error));
  g_assert_cmpstr (error->message, ==, "--framework megatron: --to deepspeed counts the memory of deepspeed");
}

/* What does not fit is refused with the bytes that are missing; it is printed all the same where that is asked for. */
static void test_memory (void)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  PsLaunchChoice choice = { .to = (char *)"megatron-gpt" };

  setting->n_devices = 2;
  setting->n_microbatches = 4;
  setting->model = g_strdup ("tiny-gpt");
  setting->cluster = g_strdup ("h100-80gb");
  setting->memory_limit = g_new (gint64, 1);
  *setting->memory_limit = 16 << 20;
  setting->n_memory_limits = 1;
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "1f1b", &error));
  refused (
      ps_launch_prediction (&choice, setting, "1f1b", prediction, &error), PS_ERROR_SCHEDULE,
      "--to megatron-gpt: does not fit: a GPU of device * needs * MiB of 16 MiB, * MiB are missing; --force prints*");
  choice.force = TRUE;
  g_autofree char *text = fine (ps_launch_prediction (&choice, setting, "1f1b", prediction, &error));
  g_assert_true (g_str_has_prefix (text, "# does not fit: a GPU of device "));
  g_assert_nonnull (strstr (text, "\n# Megatron-LM: 2 GPUs"));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/launch/refusals", test_refusals);
  g_test_add_func ("/launch/limits", test_limits);
  g_test_add_func ("/launch/groups", test_groups);
  g_test_add_func ("/launch/forms", test_forms);
  g_test_add_func ("/launch/nodes", test_nodes);
  g_test_add_func ("/launch/whole", test_whole);
  g_test_add_func ("/launch/uneven", test_uneven);
  g_test_add_func ("/launch/megatron", test_megatron);
  g_test_add_func ("/launch/torchtitan", test_torchtitan);
  g_test_add_func ("/launch/lint", test_lint);
  g_test_add_func ("/launch/imply", test_imply);
  g_test_add_func ("/launch/memory", test_memory);
  return g_test_run ();
}
