/* gather.c - carries the results of a rank to rank 0. One function names its parts in their order, for the sender and
 * for the receiver. */
#include "run.h"

#include <string.h>

#define DIGEST_LENGTH 64 /* SHA-256, hex */

/* Between a rank and rank 0: the rank sends what is carried, rank 0 fills it in. */
typedef struct
{
  PsRun *run;
  guint peer; /* the other end */
} Parcel;

static void
carry (const Parcel *parcel, gpointer data, gsize n_bytes)
{
  PsProcesses *processes = parcel->run->setting->processes;

  if (parcel->peer == 0)
    processes->send (processes, 0, data, n_bytes);
  else
    processes->receive (processes, parcel->peer, data, n_bytes, parcel->run->setting->timeout_ns);
}

static void
carry_records (const Parcel *parcel, PsRecorder *recorder, guint device)
{
  PsDeviceRecord *records = &recorder->device[device];
  gsize n_steps = recorder->n_steps;

  carry (parcel, records->ops, n_steps * records->n_ops * sizeof *records->ops);
  carry (parcel, records->posts, n_steps * records->n_posts * sizeof *records->posts);
  carry (parcel, records->transfers, n_steps * records->n_transfers * sizeof *records->transfers);
  carry (parcel, records->held_bytes, n_steps * sizeof *records->held_bytes);
  carry (parcel, &records->clock_mhz, sizeof records->clock_mhz);
}

static void
carry_gradients (const Parcel *parcel, PsRunGradients *gradients, guint stage)
{
  g_autofree guint64 *digests = g_new (guint64, gradients->n_steps);
  guint64 *first = &gradients->digest[stage];

  for (gsize step = 0; step < gradients->n_steps; step++)
    digests[step] = first[step * gradients->n_stages];
  carry (parcel, digests, gradients->n_steps * sizeof *digests);
  for (gsize step = 0; step < gradients->n_steps; step++)
    first[step * gradients->n_stages] = digests[step];
  carry (parcel, &gradients->parts[stage], sizeof gradients->parts[stage]);
  carry (parcel, &gradients->n[stage], sizeof gradients->n[stage]);
  if (gradients->last[stage] == NULL)
    gradients->last[stage] = g_new (float, gradients->n[stage]);
  carry (parcel, gradients->last[stage], gradients->n[stage] * sizeof (float));
}

/* Of a rank; its devices begin with `first`. */
static void
carry_devices (const Parcel *parcel, guint first)
{
  PsRun *run = parcel->run;

  for (guint device = first; device < first + run->n_here; device++)
    {
      const PsScript *script = &run->scripts[device];

      carry_records (parcel, run->recorder, device);
      for (guint i = 0; run->result->gradients != NULL && i < script->n_stages; i++)
        if (ps_gives_gradients (run->program->schedule, device, script->stages[i]))
          carry_gradients (parcel, run->result->gradients, script->stages[i]);
    }
}

/* To the clock of rank 0. */
static void
shift_records (PsRecorder *recorder, guint device, gint64 offset_ns)
{
  PsDeviceRecord *records = &recorder->device[device];

  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_ops; i++)
    {
      records->ops[i].times.start_ns += offset_ns;
      records->ops[i].times.end_ns += offset_ns;
    }
  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_posts; i++)
    {
      records->posts[i].start_ns += offset_ns;
      records->posts[i].end_ns += offset_ns;
    }
  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_transfers; i++)
    records->transfers[i].end_ns += offset_ns;
}

static void
send_devices (PsRun *run, guint peer, guint first)
{
  const Parcel parcel = { .run = run, .peer = peer };

  carry_devices (&parcel, first);
}

static void
fetch_devices (PsRun *run, guint peer, guint first)
{
  send_devices (run, peer, first);
  for (guint device = first; device < first + run->n_here; device++)
    shift_records (run->recorder, device, ps_processes_clock_offset (run->setting->processes, peer));
}

static void
carry_state (PsRun *run, guint peer, guint first)
{
  const Parcel parcel = { .run = run, .peer = peer };

  for (guint device = first; device < first + run->n_here; device++)
    for (guint i = 0; i < run->scripts[device].n_stages; i++)
      for (guint array = 0; array < PS_N_STATE_ARRAYS; array++)
        {
          guint stage = run->scripts[device].stages[i];
          gsize n_bytes;
          gpointer part = ps_checkpoint_part (run->saved, &run->shapes[stage], array, &n_bytes);

          if (ps_gives_gradients (run->program->schedule, device, stage) && n_bytes > 0)
            carry (&parcel, part, n_bytes);
        }
}

/* Calls send with rank 0 on every other rank with devices of pipeline 0, and fetch with each of these on rank 0. */
static void
with_ranks (PsRun *run, void (*send) (PsRun *run, guint peer, guint first),
            void (*fetch) (PsRun *run, guint peer, guint first))
{
  const PsProcesses *processes = run->setting->processes;
  guint n_devices = run->program->schedule->placement->n_devices;

  if (ps_processes_rank (processes) > 0 && run->pipeline == 0)
    send (run, 0, run->first);
  for (guint rank = 1;
       ps_processes_rank (processes) == 0 && rank < ps_processes_n_ranks (processes) && rank * run->n_here < n_devices;
       rank++)
    fetch (run, rank, rank * run->n_here);
}

/* Rank 0 has the losses of the other replicas, and all else is the same there. */
void
ps_gather (PsRun *run)
{
  with_ranks (run, send_devices, fetch_devices);
}

void
ps_gather_checkpoint (PsRun *run)
{
  with_ranks (run, carry_state, carry_state);
}

static char *
describe_training (const PsTraining *training)
{
  g_autofree char *text
      = training->text != NULL ? g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, training->text) : NULL;

  return g_strdup_printf ("%a %a %u %u %s", training->learning_rate, training->least_rate, training->warm_up,
                          training->decay, text != NULL ? text : "");
}

static char *
describe_program (const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  GString *text = g_string_new (NULL);

  g_string_printf (text, "%u %u %u %u", placement->n_devices, placement->n_stages, program->schedule->n_microbatches,
                   ps_schedule_update_every (program->schedule));
  for (guint i = 0; i < program->first[placement->n_devices]; i++)
    {
      g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

      g_string_append (text, instruction);
    }
  return g_string_free (text, FALSE);
}

/* The words for all that ranks must have in common. */
static const char *const topics[]
    = { "version", "schedule", "device or transport", "model", "number of steps", "seed", "training" };

/* The text of each topic. */
static char **
describe_run (const PsRun *run)
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
static char *
fingerprint (const PsRun *run)
{
  g_auto (GStrv) texts = describe_run (run);
  GString *digests = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (topics); i++)
    {
      g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, texts[i], -1);

      g_string_append (digests, digest);
    }
  return g_string_free (digests, FALSE);
}

/* Rank 0 says so for all. */
static gboolean
compare_fingerprints (const char *all, guint n_ranks, GError **error)
{
  for (guint rank = 1; rank < n_ranks; rank++)
    for (guint i = 0; i < G_N_ELEMENTS (topics); i++)
      if (memcmp (all + ((gsize)rank * G_N_ELEMENTS (topics) + i) * DIGEST_LENGTH, all + i * DIGEST_LENGTH,
                  DIGEST_LENGTH)
          != 0)
        return ps_refuse (error, PS_ERROR_INPUT, "rank %u runs another %s than rank 0", rank, topics[i]);
  return TRUE;
}

gboolean
ps_gather_agreement (PsRun *run, GError **error)
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
