/* gather.c - sends home what a rank has recorded. One function says what is in a parcel and in which order, for packing
 * and for unpacking. */
#include "gather.h"

#include <string.h>

#define DIGEST_LENGTH 64             /* SHA-256 of the fingerprint, hex */
#define PIECE_SIZE ((gsize)64 << 20) /* bytes of one message */

/* What travels between a rank and rank 0, in pieces: outwards what is carried is sent, inwards it is filled in. After a
 * failure nothing is carried any more. */
typedef struct
{
  PsRun *run;
  guint rank;        /* the other end */
  GByteArray *piece; /* outwards: what is not sent yet; else NULL */
  GBytes *message;   /* inwards: what is not used up yet, from n_used on */
  gsize n_used;
  GError *error;
} Parcel;

static void
send_piece (Parcel *parcel)
{
  if (parcel->error == NULL)
    ps_rendezvous_send (parcel->run->setting->others, parcel->rank, parcel->piece->data, parcel->piece->len,
                        &parcel->error);
  g_byte_array_set_size (parcel->piece, 0);
}

static void
fetch_piece (Parcel *parcel)
{
  g_clear_pointer (&parcel->message, g_bytes_unref);
  parcel->n_used = 0;
  parcel->message = ps_rendezvous_receive (parcel->run->setting->others, parcel->rank, parcel->run->setting->timeout_ns,
                                           &parcel->error);
}

static gsize
n_unused (const Parcel *parcel)
{
  return parcel->message != NULL ? g_bytes_get_size (parcel->message) - parcel->n_used : 0;
}

/* As much of it as this piece has room for, or has left; returns how much. */
static gsize
carry_some (Parcel *parcel, guint8 *data, gsize n_bytes)
{
  gsize n;

  if (parcel->piece != NULL)
    {
      if (parcel->piece->len == PIECE_SIZE)
        send_piece (parcel);
      n = MIN (n_bytes, PIECE_SIZE - parcel->piece->len);
      g_byte_array_append (parcel->piece, data, (guint)n);
      return n;
    }
  if (n_unused (parcel) == 0)
    fetch_piece (parcel);
  n = MIN (n_bytes, n_unused (parcel));
  if (n > 0)
    memcpy (data, (const guint8 *)g_bytes_get_data (parcel->message, NULL) + parcel->n_used, n);
  parcel->n_used += n;
  return n;
}

/* From or to data, as the parcel goes. */
static void
carry (Parcel *parcel, gpointer data, gsize n_bytes)
{
  guint8 *at = data;

  while (n_bytes > 0 && parcel->error == NULL)
    {
      gsize n = carry_some (parcel, at, n_bytes);

      at += n;
      n_bytes -= n;
    }
}

/* Sends the rest, or makes sure that there is none. */
static gboolean
finish_parcel (Parcel *parcel, GError **error)
{
  if (parcel->piece != NULL)
    send_piece (parcel);
  else if (parcel->error == NULL && n_unused (parcel) > 0)
    g_set_error (&parcel->error, PS_ERROR, PS_ERROR_INPUT, "rank %u sent more than there is", parcel->rank);
  g_clear_pointer (&parcel->piece, g_byte_array_unref);
  g_clear_pointer (&parcel->message, g_bytes_unref);
  if (parcel->error == NULL)
    return TRUE;
  g_propagate_error (error, parcel->error);
  return FALSE;
}

static void
carry_records (Parcel *parcel, PsRecorder *recorder, guint device)
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
carry_losses (Parcel *parcel, PsRun *run, guint device, guint replica)
{
  const PsSchedule *schedule = run->program->schedule;
  PsRunResult *result = run->result;
  guint last = schedule->placement->n_stages - 1;

  for (gsize step = 0; step < result->n_steps; step++)
    for (guint i = 0; i < schedule->n_microbatches; i++)
      if (ps_schedule_device (schedule, last, i) == device)
        carry (parcel, &result->losses[step * result->n_microbatches + replica * schedule->n_microbatches + i],
               sizeof *result->losses);
}

static void
carry_gradients (Parcel *parcel, PsRunGradients *gradients, const PsScript *script)
{
  for (guint i = 0; gradients != NULL && i < script->n_stages; i++)
    {
      guint stage = script->stages[i];

      for (gsize step = 0; step < gradients->n_steps; step++)
        carry (parcel, &gradients->digest[step * gradients->n_stages + stage], sizeof *gradients->digest);
      carry (parcel, &gradients->parts[stage], sizeof gradients->parts[stage]);
      carry (parcel, &gradients->n[stage], sizeof gradients->n[stage]);
      if (gradients->last[stage] == NULL && parcel->error == NULL)
        gradients->last[stage] = g_new (float, gradients->n[stage]);
      carry (parcel, gradients->last[stage], gradients->n[stage] * sizeof (float));
    }
}

/* All devices of a rank; they begin with `first`. Of other replicas than the first only losses count. */
static gboolean
carry_devices (Parcel *parcel, guint first, guint replica, GError **error)
{
  PsRun *run = parcel->run;

  for (guint device = first; device < first + run->n_here; device++)
    {
      carry_losses (parcel, run, device, replica);
      if (replica > 0)
        continue;
      carry_records (parcel, run->recorder, device);
      carry_gradients (parcel, run->result->gradients, &run->scripts[device]);
    }
  return finish_parcel (parcel, error);
}

/* To the clock of rank 0. */
static void
shift_records (PsRecorder *recorder, guint device, gint64 offset_ns)
{
  PsDeviceRecord *records = &recorder->device[device];

  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_ops; i++)
    {
      records->ops[i].start_ns += offset_ns;
      records->ops[i].end_ns += offset_ns;
    }
  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_posts; i++)
    {
      records->posts[i].start_ns += offset_ns;
      records->posts[i].end_ns += offset_ns;
    }
  for (gsize i = 0; i < (gsize)recorder->n_steps * records->n_transfers; i++)
    records->transfers[i].end_ns += offset_ns;
}

static gboolean
send_home (PsRun *run, GError **error)
{
  Parcel parcel = { .run = run, .rank = 0, .piece = g_byte_array_new () };

  return carry_devices (&parcel, run->first, run->replica, error);
}

static gboolean
fetch (PsRun *run, guint rank, GError **error)
{
  guint n_devices = run->program->schedule->placement->n_devices;
  guint first = rank * run->n_here % n_devices, replica = rank * run->n_here / n_devices;
  Parcel parcel = { .run = run, .rank = rank };

  if (!carry_devices (&parcel, first, replica, error))
    return FALSE;
  for (guint device = first; device < first + run->n_here && replica == 0; device++)
    shift_records (run->recorder, device, ps_rendezvous_clock_offset (run->setting->others, rank, NULL));
  return TRUE;
}

gboolean
ps_gather (PsRun *run, GError **error)
{
  PsRendezvous *others = run->setting->others;

  if (others == NULL)
    return TRUE;
  if (ps_rendezvous_rank (others) > 0)
    return send_home (run, error);
  for (guint rank = 1; rank < ps_rendezvous_n_ranks (others); rank++)
    if (!fetch (run, rank, error))
      return FALSE;
  return TRUE;
}

/* A digest of all that must be equal. */
static char *
fingerprint (const PsRun *run)
{
  const PsRunSetting *setting = run->setting;
  const PsProgram *program = run->program;
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree char *head = g_strdup_printf (
      "%s %u %u %u %s %s %u %" G_GUINT64_FORMAT " %d %" G_GSIZE_FORMAT, PS_VERSION, n_devices,
      program->schedule->placement->n_stages, program->schedule->n_microbatches, setting->device->name,
      setting->transport->name, setting->n_steps, setting->seed, setting->gradients, sizeof (PsOpRecord));
  GChecksum *checksum = g_checksum_new (G_CHECKSUM_SHA256);
  char *text;

  g_checksum_update (checksum, (const guchar *)head, -1);
  for (guint i = 0; i < program->first[n_devices]; i++)
    {
      g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

      g_checksum_update (checksum, (const guchar *)instruction, -1);
    }
  if (setting->model != NULL)
    {
      g_autofree char *model = ps_model_digest (setting->model);

      g_checksum_update (checksum, (const guchar *)model, -1);
    }
  text = g_strdup (g_checksum_get_string (checksum));
  g_checksum_free (checksum);
  return text;
}

gboolean
ps_gather_agreement (PsRun *run, GError **error)
{
  PsRendezvous *others = run->setting->others;
  g_autofree char *mine = NULL, *all = NULL;

  if (others == NULL)
    return TRUE;
  mine = fingerprint (run);
  all = g_malloc ((gsize)DIGEST_LENGTH * ps_rendezvous_n_ranks (others));
  if (!ps_rendezvous_exchange (others, mine, DIGEST_LENGTH, all, run->setting->timeout_ns, error))
    return FALSE;
  /* Rank 0 says so for all. */
  for (guint rank = 1; ps_rendezvous_rank (others) == 0 && rank < ps_rendezvous_n_ranks (others); rank++)
    if (memcmp (all + (gsize)rank * DIGEST_LENGTH, all, DIGEST_LENGTH) != 0)
      {
        g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "rank %u runs another schedule, setting or version than rank 0",
                     rank);
        return FALSE;
      }
  return TRUE;
}
