/* metamorphic-draw.c - cases of the metamorphic tests: schedules, costs and options. */
#include "lower.h"
#include "metamorphic.h"
#include "random-schedule.h"

void meta_draw_clear (MetaDraw *draw)
{
  g_free (draw->schedule);
  if (draw->options != NULL)
    g_string_free (draw->options, TRUE);
  *draw = (MetaDraw){ .schedule = NULL };
}

guint meta_below (MetaProperty *property, guint n)
{
  return random_below (property->rand, n);
}

gboolean meta_one_in (MetaProperty *property, guint n)
{
  return meta_below (property, n) == 0;
}

gboolean meta_any_family (G_GNUC_UNUSED const PsFamily *family)
{
  return TRUE;
}

gboolean meta_fixed_order (const PsFamily *family)
{
  return !family->uses_costs;
}

/* Whether the family takes these sizes. */
static gboolean try_sizes (MetaDraw *draw, const PsFamily *family)
{
  PsFamilySetting setting = { .n_devices = draw->p,
                              .n_microbatches = draw->m,
                              .n_chunks = draw->v,
                              .n_slices = draw->slices,
                              .group_size = draw->group };
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &setting, NULL);

  if (schedule == NULL || schedule->placement->n_stages > META_MOST_STAGES)
    return FALSE;
  draw->schedule = g_strdup (family->name);
  draw->asynchronous = schedule->asynchronous;
  draw->uses_costs = family->uses_costs;
  draw->n_stages = schedule->placement->n_stages;
  return TRUE;
}

gboolean meta_draw_family (MetaProperty *property, MetaDraw *draw, MetaWanted wanted)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  const PsFamily *family;

  do
    family = families[meta_below (property, n)];
  while (!wanted (family));
  draw->options = g_string_new (NULL);
  for (guint tries = 0; tries < 50; tries++) {
    draw->p = 1 + meta_below (property, 5);
    draw->m = 1 + meta_below (property, meta_one_in (property, 4) ? 14 : 8);
    draw->v = meta_one_in (property, 3) ? 1 + meta_below (property, 4) : family->default_chunks;
    draw->slices = family->default_slices > 0 ? 1 + meta_below (property, 4) : 0;
    draw->group = family->groups && meta_one_in (property, 3) ? 1 + meta_below (property, draw->m) : 0;
    if (try_sizes (draw, family))
      return TRUE;
  }
  return FALSE;
}

void meta_draw_schedule (MetaProperty *property, MetaDraw *draw)
{
  g_autoptr (PsSchedule) schedule = NULL;

  do {
    g_clear_pointer (&schedule, ps_schedule_free);
    schedule = random_schedule (property->rand, meta_one_in (property, 2));
  } while (schedule->placement->n_stages % schedule->placement->n_devices != 0);
  g_autofree char *text = ps_schedule_to_json (schedule);
  draw->schedule = meta_write_file (property, "random.json", text);
  draw->options = g_string_new (NULL);
  draw->p = schedule->placement->n_devices;
  draw->m = schedule->n_microbatches;
  draw->n_stages = schedule->placement->n_stages;
}

static guint n_listed (const MetaDraw *draw, PsCostKey key)
{
  if (key == PS_COST_OP || key == PS_COST_POST)
    return 1;
  return key == PS_COST_C || key == PS_COST_MSG ? draw->n_stages - 1 : draw->n_stages;
}

/* From least to most units. */
static void give (MetaProperty *property, MetaDraw *draw, PsCostKey key, guint least, guint most, gboolean listed)
{
  guint n = listed && n_listed (draw, key) > 0 ? n_listed (draw, key) : 1;

  draw->costs.n[key] = n;
  for (guint i = 0; i < n; i++)
    draw->costs.value[key][i] = META_UNIT * (least + (gint64)meta_below (property, most - least + 1));
}

/* A part of another key, value by value. */
static void give_part (MetaProperty *property, MetaDraw *draw, PsCostKey key, PsCostKey whole)
{
  draw->costs.n[key] = draw->costs.n[whole];
  for (guint i = 0; i < draw->costs.n[key]; i++)
    draw->costs.value[key][i]
        = META_UNIT * (gint64)meta_below (property, (guint)(draw->costs.value[whole][i] / META_UNIT) + 1);
}

void meta_draw_plain (MetaProperty *property, MetaDraw *draw)
{
  gboolean listed = meta_one_in (property, 4);

  for (PsCostKey key = PS_COST_F; key <= PS_COST_W; key++)
    give (property, draw, key, key == PS_COST_W ? 0 : 1, 9, listed);
  give (property, draw, PS_COST_C, 0, meta_one_in (property, 3) ? 0 : 5, listed);
  give (property, draw, PS_COST_ACT, 1, 12, listed && meta_one_in (property, 2));
  give_part (property, draw, PS_COST_WACT, PS_COST_ACT);
}

/* BW and pairs from half of what their parts take to a little more. */
static void draw_joined (MetaProperty *property, MetaDraw *draw, PsCostKey key)
{
  MetaCosts *costs = &draw->costs;

  costs->n[key] = costs->n[PS_COST_F];
  for (guint i = 0; i < costs->n[key]; i++) {
    gint64 sum = costs->value[PS_COST_B][i] + costs->value[PS_COST_W][i]
                 + (key == PS_COST_PAIR ? costs->value[PS_COST_F][i] : 0);
    guint half = (guint)(sum / 2 / META_UNIT);

    costs->value[key][i] = META_UNIT * (gint64)(half + meta_below (property, half + 3));
  }
}

void meta_draw_costs (MetaProperty *property, MetaDraw *draw)
{
  static const PsCostKey rare[]
      = { PS_COST_O, PS_COST_REDUCE, PS_COST_REDUCE2, PS_COST_R, PS_COST_HOST, PS_COST_OP, PS_COST_POST };

  meta_draw_plain (property, draw);
  gboolean listed = draw->costs.n[PS_COST_F] > 1;
  if (meta_one_in (property, 4))
    draw_joined (property, draw, PS_COST_BW);
  if (meta_one_in (property, 3))
    draw_joined (property, draw, PS_COST_PAIR);
  for (guint i = 0; i < G_N_ELEMENTS (rare); i++)
    if (meta_one_in (property, 4))
      give (property, draw, rare[i], 1, 9, listed);
}

void meta_draw_memory (MetaProperty *property, MetaDraw *draw)
{
  if (meta_one_in (property, 2))
    give (property, draw, PS_COST_WEIGHTS, 0, 9, meta_one_in (property, 2));
  if (draw->costs.n[PS_COST_WEIGHTS] > 0 && meta_one_in (property, 2))
    give_part (property, draw, PS_COST_OPT, PS_COST_WEIGHTS);
  if (draw->costs.n[PS_COST_WEIGHTS] > 0 && meta_one_in (property, 2))
    give (property, draw, PS_COST_VERSION, 0, 9, FALSE);
  if (meta_one_in (property, 4))
    give_part (property, draw, PS_COST_KEEP, PS_COST_ACT);
}

void meta_draw_messages (MetaProperty *property, MetaDraw *draw)
{
  give (property, draw, PS_COST_MSG, 0, 6, meta_one_in (property, 3));
}

static gboolean draws (MetaProperty *property, MetaOptions options, MetaOptions option)
{
  return (options & option) != 0 && meta_one_in (property, 3);
}

static void draw_channel_options (MetaProperty *property, MetaDraw *draw, MetaOptions options)
{
  static const char *const bandwidths[] = { "0.1", "0.5", "2", "3" };

  if (draws (property, options, META_CHANNEL))
    g_string_append_printf (draw->options, " --comm %s",
                            ps_channel_name ((PsChannel)(1 + meta_below (property, n_channels () - 1))));
  if (draws (property, options, META_BLOCKING))
    g_string_append (draw->options, " --blocking");
  else if (draws (property, options, META_WINDOW))
    g_string_append_printf (draw->options, " --ready-order %u", 1 + meta_below (property, 4));
  if (draws (property, options, META_EAGER))
    g_string_append_printf (draw->options, " --eager %uB", META_UNIT * meta_below (property, 7));
  if (draws (property, options, META_ORDER))
    g_string_append (draw->options, " --comm-order deferred");
  else if (draws (property, options, META_PLANNED))
    g_string_append (draw->options, " --comm-order planned");
  if (draws (property, options, META_BANDWIDTH))
    g_string_append_printf (draw->options, " --bandwidth-factor %s",
                            bandwidths[meta_below (property, G_N_ELEMENTS (bandwidths))]);
}

static void draw_speeds (MetaProperty *property, MetaDraw *draw)
{
  static const char *const speeds[] = { "0.5", "0.8", "1", "1.5" };

  g_string_append (draw->options, " --speed ");
  for (guint i = meta_one_in (property, 2) ? draw->p : 1; i > 0; i--)
    g_string_append_printf (draw->options, "%s%s", speeds[meta_below (property, G_N_ELEMENTS (speeds))],
                            i > 1 ? ":" : "");
}

void meta_draw_options (MetaProperty *property, MetaDraw *draw, MetaOptions options)
{
  draw_channel_options (property, draw, options);
  if (draws (property, options, META_SPEED))
    draw_speeds (property, draw);
  if (draws (property, options, META_SLOWDOWN))
    g_string_append_printf (
        draw->options, " --overlap-slowdown %s%s", meta_one_in (property, 2) ? "1.2" : "2",
        strstr (draw->options->str, "--ready-order") == NULL && meta_one_in (property, 2) ? " --overlap-waiting" : "");
  if (draws (property, options, META_BYPASS))
    g_string_append (draw->options, " --sync bypass");
  if (draws (property, options, META_EXPOSED))
    g_string_append (draw->options, " --reduce exposed");
  if (draws (property, options, META_RECOMPUTE))
    g_string_append (draw->options, " --recompute full");
}

static void append_costs (GString *line, const MetaCosts *costs)
{
  const char *separator = " --costs ";

  for (guint key = 0; key < PS_N_COST_KEYS; key++) {
    for (guint i = 0; i < costs->n[key]; i++)
      g_string_append_printf (line, "%s%s%s%" G_GINT64_FORMAT "%s", i ? ":" : separator,
                              i ? "" : ps_cost_key_name ((PsCostKey)key), i ? "" : "=", costs->value[key][i],
                              key < PS_COST_ACT ? "ns" : "B");
    if (costs->n[key] > 0)
      separator = ",";
  }
}

char *meta_line (const MetaDraw *draw, const char *extra)
{
  GString *line = g_string_new (NULL);

  g_string_append_printf (line, "-p %u -m %u", draw->p, draw->m);
  if (draw->v > 0)
    g_string_append_printf (line, " -v %u", draw->v);
  if (draw->slices > 0)
    g_string_append_printf (line, " --slices %u", draw->slices);
  if (draw->group > 0)
    g_string_append_printf (line, " --group %u", draw->group);
  append_costs (line, &draw->costs);
  if (draw->costs.n[PS_COST_REDUCE] > 0)
    g_string_append (line, " --replicas 2");
  g_string_append (line, draw->options->str);
  if (extra != NULL)
    g_string_append_printf (line, " %s", extra);
  return g_string_free (line, FALSE);
}
