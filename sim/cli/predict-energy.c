/* predict-energy.c - the energy of predictions as columns. */
#include "predict-energy.h"

#include <pipesim/explain.h>

const PsOption ps_power_rows[] = {
  PS_OPTION (
      "power", 0, PS_TEXT (PsPowerOptions, text), "busy=W,idle=W,...",
      "Watts of a device. They give the energy of an iteration, and the least energy in the same time: ops that can "
      "wait then run at a lower clock, down to clock=PART of the full one (0.5 unless given). f, b, w, bw, r, o in "
      "place of busy are the watts of one kind of op",
      .group = PS_GROUP_COSTS, .otherwise = "no energy"),
  PS_OPTION_END,
};

gboolean
ps_energy_has_key (const char *key)
{
  static const char *const keys[] = { "energy_joules", "least_energy_joules", "energy_saved", "clocks", NULL };

  return g_strv_contains (keys, key);
}

gboolean
ps_power_finish (PsPowerOptions *options, const PsSetting *setting, GError **error)
{
  const char *against = setting->blocking                 ? "--blocking"
                        : setting->share_links            ? "--share-links"
                        : setting->ready_order > 0        ? "--ready-order"
                        : setting->overlap_slowdown > 1   ? "--overlap-slowdown"
                        : setting->sync == PS_SYNC_BYPASS ? "--sync bypass"
                                                          : NULL;

  if (options->text == NULL)
    return TRUE;
  if (against != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--power: not with %s: which ops may wait is not known there", against);
  return ps_power_parse ("--power", options->text, &options->power, error);
}

static const PsColumn clock_columns[] = {
  { "op", NULL, PS_COLUMN_TEXT },       { "device", NULL, PS_COLUMN_INTEGER }, { "time_ns", NULL, PS_COLUMN_TIME },
  { "slack_ns", NULL, PS_COLUMN_TIME }, { "clock", NULL, PS_COLUMN_RATIO },
};

/* time_ns is that at the clock. slack_ns is how much longer the op could take alone. */
static PsTable *
clock_table (const PsPrediction *prediction, const PsEnergy *energy)
{
  const PsProgram *program = prediction->program;
  g_autoptr (PsExplanation) explanation
      = ps_explain (program, prediction->costs, prediction->simulation, prediction->metrics.iteration_ns);
  PsTable *table = ps_table_new (clock_columns, G_N_ELEMENTS (clock_columns));
  char name[48];

  for (guint i = 0; i < program->n_steps; i++)
    {
      guint step = program->step_of[i];

      ps_table_add_row (table);
      ps_table_set_text (table, "op", ps_op_format (program->schedule->ops[i], name));
      ps_table_set_integer (table, "device", program->steps[step].device);
      ps_table_set_integer (table, "time_ns", energy->duration_ns[step]);
      if (explanation->slack_ns != NULL)
        ps_table_set_integer (table, "slack_ns", explanation->slack_ns[step]);
      ps_table_set_ratio (table, "clock", energy->clock[step]);
    }
  return table;
}

void
ps_energy_add (PsTable *table, const PsPowerOptions *options, const PsPrediction *prediction)
{
  if (options->text == NULL)
    return;
  g_autoptr (PsEnergy) energy
      = ps_energy_new (prediction->program, prediction->costs, ps_prediction_events (prediction),
                       prediction->simulation, &options->power, prediction->metrics.iteration_ns);
  if (energy == NULL)
    return;
  ps_table_set_ratio (table, "energy_joules", energy->full_joules);
  ps_table_set_ratio (table, "least_energy_joules", energy->least_joules);
  ps_table_set_ratio (table, "energy_saved", energy->least_joules / MAX (energy->full_joules, 1e-300) - 1);
  ps_table_set_table (table, "clocks", clock_table (prediction, energy));
}

const char *
ps_energy_note (const PsPowerOptions *options)
{
  return options->text != NULL ? "least energy: ops that can wait run at a lower clock, in the same iteration; --json "
                                 "has the clock and the slack of each\n"
                               : "";
}
