/* gather.c - carries the results of a rank to rank 0. One function names its parts in their order, for the sender and
 * for the receiver. */
#include "run.h"

#include <string.h>

#define DIGEST_LENGTH 64 /* SHA-256, hex */

/* Between a rank and rank 0 (peer is the other end): the rank sends the bytes, rank 0 fills them in. */
static void carry (const PsRun *run, guint peer, gpointer data, gsize n_bytes)
{
  PsProcesses *processes = run->setting->processes;

  if (peer == 0)
    processes->send (processes, 0, data, n_bytes);
  else
    processes->receive (processes, peer, data, n_bytes, run->setting->timeout_ns);
}

static void carry_gradients (const PsRun *run, guint peer, guint stage)
{
  PsRunGradients *gradients = run->result->gradients;
  g_autofree guint64 *digests = g_new (guint64, gradients->n_steps);
  guint64 *first = &gradients->digest[stage];

  for (gsize step = 0; step < gradients->n_steps; step++)
    digests[step] = first[step * gradients->n_stages];
  carry (run, peer, digests, gradients->n_steps * sizeof *digests);
  for (gsize step = 0; step < gradients->n_steps; step++)
    first[step * gradients->n_stages] = digests[step];
  carry (run, peer, &gradients->parts[stage], sizeof gradients->parts[stage]);
  carry (run, peer, &gradients->n[stage], sizeof gradients->n[stage]);
  if (gradients->last[stage] == NULL)
    gradients->last[stage] = g_new (float, gradients->n[stage]);
  carry (run, peer, gradients->last[stage], gradients->n[stage] * sizeof (float));
}

/* The records of a device, whose times rank 0 shifts to its own clock. */
static void carry_records (const PsRun *run, guint peer, guint device)
{
  PsDeviceRecord *records = &run->recorder->device[device];
  const gsize n_steps = run->recorder->n_steps;
  const gint64 offset_ns = ps_processes_clock_offset (run->setting->processes, peer);

  carry (run, peer, records->ops, n_steps * records->n_ops * sizeof *records->ops);
  carry (run, peer, records->posts, n_steps * records->n_posts * sizeof *records->posts);
  carry (run, peer, records->transfers, n_steps * records->n_transfers * sizeof *records->transfers);
  carry (run, peer, records->held_bytes, n_steps * sizeof *records->held_bytes);
  carry (run, peer, &records->clock_mhz, sizeof records->clock_mhz);
  for (gsize i = 0; peer > 0 && i < n_steps * records->n_ops; i++) {
    records->ops[i].times.start_ns += offset_ns;
    records->ops[i].times.end_ns += offset_ns;
  }
  for (gsize i = 0; peer > 0 && i < n_steps * records->n_posts; i++) {
    records->posts[i].start_ns += offset_ns;
    records->posts[i].end_ns += offset_ns;
  }
  for (gsize i = 0; peer > 0 && i < n_steps * records->n_transfers; i++)
    records->transfers[i].end_ns += offset_ns;
}

static void carry_results (const PsRun *run, guint peer, guint device)
{
  const PsScript *script = &run->scripts[device];

  carry_records (run, peer, device);
  for (guint i = 0; run->result->gradients != NULL && i < script->n_stages; i++)
    if (ps_gives_gradients (run->program->schedule, device, script->stages[i]))
      carry_gradients (run, peer, script->stages[i]);
}

static void carry_state (const PsRun *run, guint peer, guint device)
{
  const PsScript *script = &run->scripts[device];

  for (guint i = 0; i < script->n_stages * PS_N_STATE_ARRAYS; i++) {
    guint stage = script->stages[i / PS_N_STATE_ARRAYS];
    gsize n_bytes;
    gpointer part = ps_checkpoint_part (run->saved, &run->shapes[stage], i % PS_N_STATE_ARRAYS, &n_bytes);

    if (ps_gives_gradients (run->program->schedule, device, stage) && n_bytes > 0)
      carry (run, peer, part, n_bytes);
  }
}

/* Rank 0 carries for each device of pipeline 0 that is in another process, and so does that process. */
static void carry_all (const PsRun *run, void (*carry_device) (const PsRun *run, guint peer, guint device))
{
  const guint n_devices = run->program->schedule->placement->n_devices;

  if (ps_processes_rank (run->setting->processes) == 0)
    for (guint device = run->n_here; device < n_devices; device++)
      carry_device (run, device / run->n_here, device);
  else if (run->pipeline == 0)
    for (guint device = run->first; device < run->first + run->n_here; device++)
      carry_device (run, 0, device);
}

/* Rank 0 has the losses of the other replicas, and all else is the same there. */
void ps_gather (PsRun *run)
{
  carry_all (run, carry_results);
}

void ps_gather_checkpoint (PsRun *run)
{
  carry_all (run, carry_state);
}

static char *describe_training (const PsTraining *training)
{
  g_autofree char *text
      = training->text != NULL ? g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, training->text) : NULL;

  return g_strdup_printf ("%a %a %u %u %s", training->learning_rate, training->least_rate, training->warm_up,
                          training->decay, text != NULL ? text : "");
}

static char *describe_program (const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  GString *text = g_string_new (NULL);

  g_string_printf (text, "%u %u %u %u", placement->n_devices, placement->n_stages, program->schedule->n_microbatches,
                   ps_schedule_update_every (program->schedule));
  for (guint i = 0; i < program->first[placement->n_devices]; i++) {
    g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

    g_string_append (text, instruction);
  }
  return g_string_free (text, FALSE);
}

/* The words for all that ranks must have in common. */
static const char *const topics[]
    = { "version", "schedule", "device or transport", "model", "number of steps", "seed", "training" };

/* The text of each topic. */
static char **describe_run (const PsRun *run)
{
  const PsRunSetting *setting = run->setting;
  char **texts = g_new0 (char *, G_N_ELEMENTS (topics) + 1);
  g_autofree char *training = setting->training != NULL ? describe_training (setting->training) : NULL;

  texts[0] = g_strdup_printf ("%s %" G_GSIZE_FORMAT, PS_VERSION, sizeof (PsOpRecord));
  texts[1] = describe_program (run->program);
  texts[2] = g_strdup_printf ("%s %s", setting->device->name, setting->transport->name);
  texts[3] = setting->model != NULL ? ps_model_digest (setting->model) : g_strdup ("");
  texts[4] = g_strdup_printf ("%u", setting->n_steps);
  texts[5] = g_strdup_printf ("%" G_GUINT64_FORMAT, setting->seed);
  texts[6] = g_strdup_printf ("%d %d %d %u %u %s", setting->zero, setting->gradients, setting->save != NULL,
                              setting->save_every, setting->start != NULL ? ps_checkpoint_step (setting->start) : 0,
                              training != NULL ? training : "");
  return texts;
}

/* One digest for each topic, one after the other. */
static char *fingerprint (const PsRun *run)
{
  g_auto (GStrv) texts = describe_run (run);
  GString *digests = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (topics); i++) {
    g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, texts[i], -1);

    g_string_append (digests, digest);
  }
  return g_string_free (digests, FALSE);
}

/* Rank 0 says so for all. */
static gboolean compare_fingerprints (const char *all, guint n_ranks, GError **error)
{
  for (guint rank = 1; rank < n_ranks; rank++)
    for (guint i = 0; i < G_N_ELEMENTS (topics); i++)
      if (memcmp (all + ((gsize)rank * G_N_ELEMENTS (topics) + i) * DIGEST_LENGTH, all + i * DIGEST_LENGTH,
                  DIGEST_LENGTH)
          != 0)
        return ps_refuse (error, PS_ERROR_INPUT, "rank %u runs another %s than rank 0", rank, topics[i]);
  return TRUE;
}

gboolean ps_gather_agreement (PsRun *run, GError **error)
{
  const gsize n_bytes = G_N_ELEMENTS (topics) * DIGEST_LENGTH;
  PsProcesses *processes = run->setting->processes;
  g_autofree char *mine = NULL, *all = NULL;

  if (processes == NULL)
    return TRUE;
  mine = fingerprint (run);
  all = g_malloc (n_bytes * processes->n_ranks);
  processes->meeting = NULL; /* of an earlier run */
  ps_processes_exchange (processes, mine, n_bytes, all, run->setting->timeout_ns);
  return processes->rank > 0 || compare_fingerprints (all, processes->n_ranks, error);
}
