/* budget.c - measures again whatever makes predictions uncertain. */
#include "budget.h"

#include "clock.h"
#include "doubt.h"
#include "transfers.h"

#define SMALL_DOUBT 0.0005 /* of an iteration time; nothing else is known as well */
#define TRANSFER_PARTS 10  /* a size of transfers has a tenth of a rule's time */

gint64 ps_budget_first_limit (const PsCalibration *calibration, gint64 budget_ns)
{
  g_autoptr (GArray) sizes = ps_transfer_sizes (ps_model_boundary_bytes (calibration->model));
  guint n_alone = calibration->n_local > 1 ? calibration->n_devices : 0;
  guint n_rotations
      = calibration->n_slices + calibration->n_chunks * (calibration->n_devices / calibration->n_local + n_alone);
  guint n_parts = n_rotations * (TRANSFER_PARTS + 1) + (calibration->n_devices > 1 ? 2 * sizes->len : 0);

  return MAX (budget_ns / 2 * TRANSFER_PARTS / n_parts, 1);
}

/* One part of what predictions take: the ops of a number of chunks, or (0) the transfer. */
typedef struct {
  guint n_chunks;
  double doubt;
  gint64 limit_ns; /* time for its ops until now */
} Part;

/* The doubts of all parts; the last one is the transfer. */
static gboolean find_doubts (const PsCalibRounds *rounds, const PsCalibration *calibration, Part *parts, GError **error)
{
  Part *transfer = &parts[calibration->n_chunks];

  transfer->doubt = 0;
  for (guint i = 0; i < calibration->n_chunks; i++) {
    g_autoptr (PsCut) cut = ps_cut_new (calibration, calibration->chunks[i], error);
    PsDoubt doubt;

    if (cut == NULL || !ps_doubt_find (&doubt, rounds->db, rounds->profile_name, calibration->model, cut, error))
      return FALSE;
    parts[i].doubt = doubt.ops;
    transfer->doubt = MAX (transfer->doubt, doubt.transfers);
  }
  return TRUE;
}

static Part *most_doubtful (Part *parts, guint n)
{
  Part *most = parts;

  for (guint i = 1; i < n; i++)
    if (parts[i].doubt > most->doubt)
      most = &parts[i];
  return most;
}

static void tell (const PsCalibRounds *rounds, const Part *part, gint64 limit_ns)
{
  g_autofree char *time = ps_format_time (part->n_chunks > 0 ? limit_ns : limit_ns / TRANSFER_PARTS);
  g_autofree char *what
      = part->n_chunks > 0 ? g_strdup_printf ("ops of v = %u", part->n_chunks) : g_strdup ("transfers");

  g_printerr ("%serror of iteration times by samples: %.2f %% from %s, the most; %s more for them%s",
              rounds->terminal ? PS_CLEAR_LINE : "", 100 * part->doubt, what, time, rounds->terminal ? "" : "\n");
}

gboolean ps_budget_spend (PsCalibRounds *rounds, const PsCalibration *calibration, gint64 end_ns, GError **error)
{
  guint n = calibration->n_chunks + 1;
  g_autofree Part *parts = g_new0 (Part, n);

  for (guint i = 0; i < n; i++)
    parts[i] = (Part){ .n_chunks = i < calibration->n_chunks ? calibration->chunks[i] : 0,
                       .limit_ns = calibration->rule.time_limit_ns };
  for (;;) {
    PsCalibration more = *calibration;

    if (!find_doubts (rounds, calibration, parts, error))
      return FALSE;
    Part *part = most_doubtful (parts, n);
    more.rule.within = 0;
    more.rule.time_limit_ns = MIN (2 * part->limit_ns, end_ns - ps_clock_now ());
    if (part->doubt < SMALL_DOUBT || more.rule.time_limit_ns < calibration->rule.time_limit_ns)
      return TRUE;
    tell (rounds, part, more.rule.time_limit_ns);
    if (!ps_calib_rounds_add (rounds, &more, part->n_chunks, error))
      return FALSE;
    part->limit_ns = more.rule.time_limit_ns;
  }
}
