/* observed-log.c - samples from the log of Megatron-LM's timers. Launchers may put a word before each of its lines. */
#include <pipesim/observe.h>

#include "timeline-private.h"

#include <math.h>
#include <string.h>

/* Values of arguments that are no number. */
#define MISSING (-2)
#define OTHER (-1)

enum
{
  WORLD,
  PIPELINE,
  DATA,
  MICRO,
  GLOBAL,
  VIRTUAL,
  RAMP_UP,
  OUTSIDE,
  N_ARGUMENTS
};

static const char *const arguments[N_ARGUMENTS]
    = { "world_size",        "pipeline_model_parallel_size",         "data_parallel_size", "micro_batch_size",
        "global_batch_size", "virtual_pipeline_model_parallel_size", "rampup_batch_size",  "use_tp_pp_dp_mapping" };

static const char *const timers[] = { "forward-compute", "backward-compute" }; /* F and BW */
#define N_TIMERS G_N_ELEMENTS (timers)

typedef struct
{
  PsObserved *observed;
  const char *where;
  gint64 argument[N_ARGUMENTS];
  guint p;
  guint v;
  guint m;
  double *ms;              /* [timer * p + device] sum over the ranks of a device; NULL: no timers yet */
  gint64 n_read[N_TIMERS]; /* ranks, which come in order */
  guint timer;             /* of the ranks that follow; N_TIMERS: another one */
  guint n_intervals;
} Reader;

/* Arguments */

/* "NAME ..... VALUE". None and False count as 0. */
static gboolean
read_argument (Reader *reader, const char *body, GError **error)
{
  for (guint i = 0; i < N_ARGUMENTS; i++)
    {
      guint64 number = 0;
      gint64 said = OTHER;

      if (!g_str_has_prefix (body, arguments[i]) || !g_str_has_prefix (body + strlen (arguments[i]), " ."))
        continue;
      body = strrchr (body, ' ') + 1;
      if (g_str_equal (body, "None") || g_str_equal (body, "False")
          || g_ascii_string_to_unsigned (body, 10, 0, G_MAXINT32, &number, NULL))
        said = (gint64)number;
      if (reader->argument[i] != MISSING && reader->argument[i] != said)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: holds runs of different %s; the log of one run would be right",
                          reader->where, arguments[i]);
      reader->argument[i] = said;
      break;
    }
  return TRUE;
}

static gboolean
take_arguments (Reader *reader, GError **error)
{
  const gint64 *a = reader->argument;
  gint64 v = a[VIRTUAL] == MISSING || a[VIRTUAL] == 0 ? 1 : a[VIRTUAL];

  for (guint i = 0; i < VIRTUAL; i++)
    if (a[i] >= 0 && a[i] < 1)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: %s is 0; 1 or more would be right", reader->where, arguments[i]);
    else if (a[i] < 1)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: no %s among arguments before the timers; a log from the run's start on would be right",
                        reader->where, arguments[i]);
  if (a[RAMP_UP] != MISSING && a[RAMP_UP] != 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: with rampup_batch_size the number of microbatches changes; a run without would be right",
                      reader->where);
  if (a[PIPELINE] > PS_MAX_DEVICES || v < 1 || v > PS_MAX_STAGES / a[PIPELINE]
      || a[WORLD] % (a[PIPELINE] * a[DATA]) != 0 || a[GLOBAL] % (a[MICRO] * a[DATA]) != 0
      || a[GLOBAL] / (a[MICRO] * a[DATA]) > PS_MAX_MICROBATCHES)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: world, batch and parallel sizes among the arguments fit no pipeline",
                      reader->where);
  reader->p = (guint)a[PIPELINE];
  reader->v = (guint)v;
  reader->m = (guint)(a[GLOBAL] / (a[MICRO] * a[DATA]));
  reader->ms = g_new (double, (gsize)N_TIMERS * reader->p);
  return ps_observed_set_stages (reader->observed, reader->where, reader->p * reader->v, error);
}

/* Intervals */

/* Takes an interval that has all ranks, in place of the first one, which warms up. Each of a device's stages takes the
 * mean over them, its ranks and microbatches; that is an estimate if it has several. */
static void
end_interval (Reader *reader)
{
  PsObserved *observed = reader->observed;
  gint64 world = reader->argument[WORLD];
  double n_ops = (double)world / reader->p * reader->m * reader->v;

  if (reader->n_read[0] < world || reader->n_read[1] < world)
    return;
  reader->n_intervals++;
  for (guint i = 0; i < N_TIMERS * observed->n_stages; i++)
    {
      guint timer = i / observed->n_stages, stage = i % observed->n_stages;
      PsOpKind kind = timer == 0 ? PS_OP_F : PS_OP_BW;
      GArray *samples = observed->op[kind * observed->n_stages + stage];
      gint64 ns = llround (1e6 * reader->ms[timer * reader->p + stage % reader->p] / n_ops);

      if (reader->n_intervals == 2)
        g_array_set_size (samples, samples->len - 1);
      g_array_append_val (samples, ns);
      if (reader->v > 1)
        observed->estimated[stage] |= 1U << kind;
    }
}

static gboolean
begin_interval (Reader *reader, GError **error)
{
  if (reader->ms != NULL)
    end_interval (reader);
  else if (!take_arguments (reader, error))
    return FALSE;
  memset (reader->ms, 0, N_TIMERS * reader->p * sizeof *reader->ms);
  memset (reader->n_read, 0, sizeof reader->n_read);
  reader->timer = N_TIMERS;
  return TRUE;
}

/* Adds a time of n ranks. It has two decimals, as all have; one that is cut has fewer, and its interval is not whole.
 */
static void
add_time (Reader *reader, guint timer, guint device, const char *text, gint64 n)
{
  char *end;
  double ms = g_ascii_strtod (text, &end);

  if (end < text + 4 || end[-3] != '.' || !(ms >= 0 && ms <= PS_MAX_TIME_NS / 1e6))
    return;
  reader->ms[timer * reader->p + device] += ms * (double)n;
  reader->n_read[timer] += n;
}

/* "NAME:" begins the times of all ranks, "rank  3: 12.34". Ranks of a stage follow each other, unless the mapping has
 * replicas outermost. "NAME ....: (12.34, 56.78)" has the least and the greatest time, or that alone. */
static gboolean
read_timer (Reader *reader, const char *body, GError **error)
{
  const gint64 *a = reader->argument;

  if (g_str_has_prefix (body, "rank ") && reader->timer < N_TIMERS)
    {
      gint64 per_stage = a[WORLD] / a[PIPELINE] / (a[OUTSIDE] == OTHER ? a[DATA] : 1);
      char *end;
      guint64 rank = g_ascii_strtoull (body + strlen ("rank "), &end, 10);

      if (*end == ':' && rank < (guint64)a[WORLD] && (gint64)rank == reader->n_read[reader->timer])
        add_time (reader, reader->timer, (guint)((gint64)rank / per_stage % a[PIPELINE]), end + 1, 1);
    }
  else if (g_str_has_suffix (body, ":"))
    reader->timer = N_TIMERS;
  for (guint i = 0; i < N_TIMERS; i++)
    {
      if (!g_str_has_prefix (body, timers[i]))
        continue;
      if (g_str_equal (body + strlen (timers[i]), ":"))
        reader->timer = i;
      else if (g_str_has_prefix (body + strlen (timers[i]), " .") && reader->p > 1)
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: its timers have one range for all %u stages; --timing-log-option all would be right",
                          reader->where, reader->p);
      else if (g_str_has_prefix (body + strlen (timers[i]), " .") && reader->n_read[i] == 0)
        add_time (reader, i, 0, strrchr (body, ' '), a[WORLD]);
    }
  return TRUE;
}

/* Lines */

static gboolean
read_lines (Reader *reader, GBytes *log, GError **error)
{
  gsize length;
  const char *text = g_bytes_get_data (log, &length), *end = text + length;

  while (text < end)
    {
      const char *newline = memchr (text, '\n', (gsize)(end - text)), *line_end = newline != NULL ? newline : end;
      g_autofree char *line = g_strchomp (g_strndup (text, (gsize)(line_end - text)));
      const char *body = strstr (line, "  ");

      if (strstr (line, PS_TIMERS_HEADING) != NULL)
        {
          if (!begin_interval (reader, error))
            return FALSE;
        }
      else if (body != NULL)
        {
          body += strspn (body, " ");
          if (!read_argument (reader, body, error) || (reader->ms != NULL && !read_timer (reader, body, error)))
            return FALSE;
        }
      text = newline != NULL ? newline + 1 : end;
    }
  if (reader->ms != NULL)
    end_interval (reader);
  return reader->n_intervals > 0
         || ps_refuse (
             error, PS_ERROR_INPUT,
             "%s: no log interval has forward-compute and backward-compute of all ranks; --timing-log-level 2 "
             "and --timing-log-option all would be right",
             reader->where);
}

gboolean
ps_observed_add_log (PsObserved *observed, const char *where, GBytes *log, GError **error)
{
  Reader reader = { .observed = observed, .where = where };

  for (guint i = 0; i < N_ARGUMENTS; i++)
    reader.argument[i] = MISSING;
  gboolean ok = read_lines (&reader, log, error);
  g_free (reader.ms);
  if (!ok)
    return FALSE;
  guint n = MAX (reader.n_intervals, 2) - 1;
  observed->n_devices = reader.p;
  observed->origin = MAX (observed->origin, PS_ORIGIN_MEASURED);
  g_string_append_printf (observed->source, "%s%s, timers of %u log interval%s: means over %u microbatches",
                          observed->source->len > 0 ? "; " : "", where, n, n == 1 ? "" : "s", reader.m);
  if (reader.v > 1)
    g_string_append_printf (observed->source, " and the %u stages of a device", reader.v);
  return TRUE;
}
