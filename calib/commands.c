/* commands.c - helpers of the subcommands of pipesim-calib. */
#include "commands.h"

gboolean ps_calib_require (const char *option, const char *value, GError **error)
{
  if (value != NULL && *value)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %s", option, value != NULL ? "is empty" : "missing");
}

char *ps_calib_describe (const PsMeasurement *m)
{
  const char *plural = m->devices == 1 ? "" : "s";
  g_autofree char *bytes = ps_format_size (m->bytes);
  g_autofree char *size = m->bytes == 0 && *m->shape ? g_strdup ("") : g_strconcat (" of ", bytes, NULL);
  g_autofree char *cache
      = m->cache == PS_CACHE_RUN ? g_strdup ("") : g_strdup_printf (", cache %s", ps_cache_state_name (m->cache));
  g_autofree char *sharing = m->sharing <= 1 ? g_strdup ("") : g_strdup_printf (", %u sharing", m->sharing);
  g_autofree char *share = m->share == 0 ? g_strdup ("") : g_strdup_printf (", share %u", m->share);

  if (m->subject == PS_SUBJECT_SELF_SEND)
    return g_strdup_printf ("%s%s%s", m->shape, size, sharing);
  if (m->subject != PS_SUBJECT_OP)
    return g_strdup_printf ("%s%s%s%s, %u device%s busy%s", ps_subject_name (m->subject), *m->shape ? " " : "",
                            m->shape, size, m->devices, plural, sharing);
  return g_strdup_printf ("%s of %s, %u device%s busy%s%s%s", ps_op_kind_name (m->kind), m->shape, m->devices, plural,
                          sharing, share, cache);
}

static const PsCellColumn columns[] = {
  PS_CELL_SET ("what", "what", TEXT),
  PS_CELL_SET ("shape", "stage shape", TEXT),
  PS_CELL_KNOWN (PsMeasurement, bytes, "bytes", "size", SIZE),
  PS_CELL (PsMeasurement, devices, "devices", "busy", INTEGER),
  PS_CELL (PsMeasurement, sharing, "sharing", "sharing", INTEGER),
  PS_CELL_KNOWN (PsMeasurement, share, "share", "share", INTEGER),
  PS_CELL_SET ("cache", "cache", TEXT),
  PS_CELL (PsMeasurement, time.median_ns, "median_ns", "median", TIME),
  PS_CELL (PsMeasurement, time.q1_ns, "q1_ns", "q1", TIME),
  PS_CELL (PsMeasurement, time.q3_ns, "q3_ns", "q3", TIME),
  PS_CELL (PsMeasurement, time.mad_ns, "mad_ns", "MAD", TIME),
  PS_CELL (PsMeasurement, time.min_ns, "min_ns", "min", TIME),
  PS_CELL (PsMeasurement, time.n, "n", "n", INTEGER),
  PS_CELL_KNOWN (PsMeasurement, launch_ns, "launch_ns", "launching", TIME),
  PS_CELL (PsMeasurement, stop, "stop", "stopped by", TEXT),
  PS_CELL_SET ("take_bytes", "takes", SIZE),
  PS_CELL_SET ("give_bytes", "gives", SIZE),
  PS_CELL_SET ("state_bytes", "state", SIZE),
  PS_CELL_SET ("clock_mhz", "MHz", INTEGER),
  PS_CELL_SET ("temperature_c", NULL, INTEGER),
  PS_CELL_SET ("power_mw", NULL, INTEGER),
  PS_CELL_SET ("throttled", "throttled", TEXT),
  PS_CELL_SET ("origin", "origin", TEXT),
  PS_CELL (PsMeasurement, taken, "taken", NULL, TEXT),
};

/* Sets a value that is known; 0 is not known and stays unset. */
static void set_known (PsTable *table, const char *key, gint64 value)
{
  if (value != 0)
    ps_table_set_integer (table, key, value);
}

/* Shows the medians during the measurement. Without them it shows the state at its end, when the hardware was busiest.
 * "throttled" covers the whole measurement. */
static void set_condition (PsTable *table, const PsMeasurement *m)
{
  PsCondition later = m->during.clock_mhz > 0 ? m->during : m->after;

  later.throttle = m->during.throttle | m->after.throttle;
  gboolean known, throttled = ps_condition_throttled (&m->before, &later, &known);
  g_autofree char *reasons = ps_throttle_to_text (m->before.throttle | later.throttle);
  set_known (table, "clock_mhz", later.clock_mhz);
  set_known (table, "temperature_c", later.temperature_c);
  set_known (table, "power_mw", later.power_mw);
  if (throttled || known)
    ps_table_set_text (table, "throttled", throttled ? reasons : "no");
}

static void add_row (PsTable *table, const PsMeasurement *m)
{
  const gboolean op = m->subject == PS_SUBJECT_OP, self = m->subject == PS_SUBJECT_SELF_SEND;

  ps_table_add (table, m);
  ps_table_set_text (table, "what", op ? ps_op_kind_name (m->kind) : self ? m->shape : ps_subject_name (m->subject));
  if (!self && *m->shape)
    ps_table_set_text (table, "shape", m->shape);
  if (op) {
    ps_table_set_text (table, "cache", ps_cache_state_name (m->cache));
    ps_table_set_integer (table, "take_bytes", m->take_bytes);
    ps_table_set_integer (table, "give_bytes", m->give_bytes);
    ps_table_set_integer (table, "state_bytes", m->state_bytes);
  }
  set_condition (table, m);
  ps_table_set_text (table, "origin",
                     ps_origin_name (g_str_equal (m->stop, "estimated") ? PS_ORIGIN_MODELLED : PS_ORIGIN_MEASURED));
}

static const char *const wide[]
    = { "cache", "q1_ns", "q3_ns", "min_ns", "stop", "take_bytes", "give_bytes", "state_bytes", "origin", NULL };

gboolean ps_calib_table_choose (PsTable *table, const PsColumnChoice *choice, GError **error)
{
  return ps_table_choose (table, choice, wide, error);
}

PsTable *ps_calib_table (GPtrArray *measurements)
{
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  ps_table_choose (table, NULL, wide, NULL);
  for (guint i = 0; i < measurements->len; i++)
    add_row (table, measurements->pdata[i]);
  return table;
}
