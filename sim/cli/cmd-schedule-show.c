/* cmd-schedule-show.c - pipesim schedule show: a schedule drawn as papers do, under costs if there are any. */
#include "cmd-schedule.h"

#include <pipesim/option.h>

#include <unistd.h>

/* Characters of a drawing in true proportions; in units of one op a drawing is as long as it must be. */
#define MAX_COLUMNS 160
#define MIN_FOLD 40

/* Below a line that says what a cell is. */
static gboolean
print_drawing (const PsSchedule *schedule, PsTimeline *timeline, guint max_columns, const char *unit, GError **error)
{
  guint window = ps_window_columns ();
  const char *no_colour = g_getenv ("NO_COLOR");
  const PsTimelineText style = { .max_columns = max_columns,
                                 .fold = window > 0 ? MAX (window, MIN_FOLD) : 0,
                                 .colour = isatty (STDOUT_FILENO) && (no_colour == NULL || *no_colour == '\0') };
  gint64 cell_ns;
  g_autofree char *drawing = ps_timelines_to_text ((PsTimeline *[]){ timeline }, 1, &style, &cell_ns);
  g_autofree char *cell = ps_format_time (cell_ns);
  g_autofree char *sentence = g_strdup_printf (
      "%s: %u devices, %u stages (%s), %u microbatches; a cell is %s", schedule->name, schedule->placement->n_devices,
      schedule->placement->n_stages, ps_placement_name (schedule->placement->kind), schedule->n_microbatches,
      unit != NULL ? unit : cell);
  g_autofree char *head = ps_fit_sentence (sentence, 0);
  g_autofree char *page = g_strconcat (head, drawing, NULL);
  return ps_print_coloured (page, error);
}

/* The order alone is drawn as papers do: every op of one length, a full backward of two. */
static gboolean
show_order (const PsScheduleOptions *options, const char *name, GError **error)
{
  g_autoptr (PsProgram) program = ps_predictor_program (options->predictor, name, error);

  if (program == NULL)
    return FALSE;
  g_autoptr (PsCosts) costs = ps_costs_new (program->schedule->placement->n_stages);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = kind == PS_OP_BW ? 2 : kind == PS_OP_O ? 0 : 1;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
  g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (program, costs, simulation);
  return print_drawing (program->schedule, timeline, G_MAXUINT, "one F, B or W, BW are two", error);
}

gboolean
ps_cmd_schedule_show (const PsScheduleOptions *options, const char *name, GError **error)
{
  if (ps_setting_source (options->setting) == NULL)
    return show_order (options, name, error);
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (options->predictor, name, error);
  if (prediction == NULL)
    return FALSE;
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);
  return print_drawing (prediction->program->schedule, timeline, MAX_COLUMNS, NULL, error);
}
