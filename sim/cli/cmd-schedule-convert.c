/* cmd-schedule-convert.c - pipesim schedule convert and lint: schedules for other programs, and what those would do
 * wrong with them. */
#include "cmd-schedule.h"

#include <pipesim/option.h>

static void
print_findings (const char *name, GPtrArray *findings)
{
  for (guint i = 0; i < findings->len; i++)
    g_printerr ("%s: warning: %s\n", name, (const char *)g_ptr_array_index (findings, i));
}

/* For the formats that show times: the timeline that predict -o writes. */
static char *
write_predicted (const PsScheduleOptions *options, const PsSchedule *schedule, const PsFormat *format, GError **error)
{
  g_autoptr (PsPrediction) prediction
      = ps_predictor_predict_schedule (options->predictor, ps_schedule_copy (schedule), error);
  g_autoptr (PsTimeline) timeline = prediction != NULL ? ps_prediction_timeline (prediction) : NULL;

  return timeline != NULL ? format->write_timeline (timeline) : NULL;
}

/* With sends and receives in the order of --comm-order, planned for the setting's costs if it has any. The frameworks'
 * messages carry no tags. */
static char *
write_ordered (const PsScheduleOptions *options, const PsSchedule *schedule, const PsFormat *format, GError **error)
{
  PsCommOrder order = options->setting->comm_order;
  g_autoptr (PsPrediction) prediction = NULL;

  if (format->write_program == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--comm-order %s: %s holds no sends and receives; torch-comms and colossalai do",
                           ps_comm_order_name (order), format->name);
  if (order == PS_COMM_PLANNED && ps_setting_source (options->setting) != NULL)
    {
      prediction = ps_predictor_predict_schedule (options->predictor, ps_schedule_copy (schedule), error);
      return prediction != NULL ? format->write_program (prediction->program, error) : NULL;
    }
  g_autoptr (PsProgram) lowered = order == PS_COMM_DEFERRED
                                      ? ps_program_lower_untagged (ps_schedule_copy (schedule), error)
                                      : ps_program_lower (ps_schedule_copy (schedule), order, error);
  return lowered != NULL ? format->write_program (lowered, error) : NULL;
}

static char *
write_text (const PsScheduleOptions *options, const PsSchedule *schedule, const char *name, const PsFormat *format,
            GError **error)
{
  char *text;

  if (format->write_timeline != NULL && ps_setting_source (options->setting) != NULL)
    text = write_predicted (options, schedule, format, error);
  else if (options->setting->comm_order != PS_COMM_ASAP)
    text = write_ordered (options, schedule, format, error);
  else
    text = format->write (schedule, error);
  if (text == NULL)
    g_prefix_error (error, "%s: ", name);
  return text;
}

/* For a framework, which takes the stages' layout as well: flags or keys of the whole run. */
static gboolean
convert_launch (const PsScheduleOptions *options, const char *name, GError **error)
{
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (options->predictor, name, error);
  g_autofree char *text
      = prediction != NULL ? ps_launch_prediction (&options->launch, options->setting, name, prediction, error) : NULL;

  return text != NULL && ps_write_file (options->output != NULL ? options->output : "-", text, -1, error);
}

/* Whether --to names a format or a framework. */
static gboolean
check_target (const char *to, GError **error)
{
  guint n_formats, n;
  const PsFormat *const *formats = ps_format_table (&n_formats);
  const char *const *frameworks = ps_launch_frameworks (&n);
  g_autofree gconstpointer *rows = g_new (gconstpointer, n_formats + n);

  for (guint i = 0; i < n_formats + n; i++)
    rows[i] = i < n_formats ? (gconstpointer)formats[i] : &frameworks[i - n_formats];
  return ps_table_find ("--to", "target", to, rows, n_formats + n, error) != NULL;
}

static gboolean
is_torch (const PsFormat *format)
{
  return g_str_has_prefix (format->name, "torch-");
}

gboolean
ps_cmd_schedule_convert (const PsScheduleOptions *options, const char *name, GError **error)
{
  const char *to = options->launch.to != NULL ? options->launch.to : "";
  g_autoptr (GPtrArray) findings = NULL;
  const PsFormat *format = ps_format_find (to, NULL);

  if (!check_target (to, error))
    return FALSE;
  if (format == NULL)
    return convert_launch (options, name, error);
  if (options->output == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "-o: missing; give the file to write, or - for standard output");
  g_autoptr (PsSchedule) schedule = ps_predictor_schedule (options->predictor, name, error);
  if (schedule == NULL)
    return FALSE;
  g_autofree char *text = write_text (options, schedule, name, format, error);
  if (text == NULL)
    return FALSE;
  if (is_torch (format))
    {
      findings = ps_torch_lint (schedule, format->write_program != NULL ? text : NULL);
      print_findings (name, findings);
    }
  return ps_write_file (options->output, text, -1, error);
}

/* A torch-comms file is checked as it stands, anything else as it would be exported; with --comm-order both. */
static GPtrArray *
lint_file (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  const PsFormat *format = ps_format_recognise (path, text, length, error);
  if (format == NULL)
    return NULL;
  return g_str_has_prefix (format->name, "torch-comms") ? ps_torch_lint_comms (path, text, length, error) : NULL;
}

gboolean
ps_cmd_schedule_lint (const PsScheduleOptions *options, const char *name, GError **error)
{
  g_autoptr (GPtrArray) findings = NULL;
  g_autoptr (PsSchedule) schedule = NULL;
  g_autoptr (GError) cause = NULL;
  g_autofree char *text = NULL;
  gboolean reorder = options->setting->reorder;

  if (!reorder && ps_family_find (name) == NULL && g_file_test (name, G_FILE_TEST_IS_REGULAR))
    findings = lint_file (name, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return FALSE;
    }
  if (findings == NULL)
    {
      schedule = ps_predictor_schedule (options->predictor, name, error);
      if (schedule != NULL && reorder)
        text = write_text (options, schedule, name, ps_format_find ("torch-comms", NULL), error);
      if (schedule == NULL || (reorder && text == NULL))
        return FALSE;
      findings = ps_torch_lint (schedule, text);
      if (ps_family_find (name) != NULL)
        ps_launch_lint (options->setting, name, findings);
    }
  print_findings (name, findings);
  *options->code = findings->len > 0 ? 3 : 0;
  g_autofree char *line = g_strdup_printf ("%s: %u finding%s for PyTorch's runtime and frameworks that have it\n", name,
                                           findings->len, findings->len == 1 ? "" : "s");
  return ps_print (line, error);
}
