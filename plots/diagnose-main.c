/* diagnose-main.c - the program pipesim-diagnose, run as `pipesim diagnose`: where the time of a run goes, and which
 * schedule would be faster. */
#include "diagnose-page.h"
#include "diagnose-plot.h"
#include "program.h"

#include <pipesim/command.h>
#include <pipesim/report.h>

#define DEFAULT_TIME_LIMIT_NS G_GINT64_CONSTANT (2000000000)

typedef struct
{
  PsDiagnoseOptions diagnose;
  char *output;
  char *title;
  gboolean json;
  PsColumnChoice columns;
  char **traces;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE",
             "Write a page (.html) or a picture (.svg, .png, .pdf) in place of the text", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("title", 0, PS_TEXT (Options, title), "TEXT", "Title of the page or picture", .otherwise = "its own",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (format pipesim-diagnosis/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("time-limit", 't', PS_TIME (Options, diagnose.time_limit_ns), "T",
             "How long to search for better schedules; 0: not at all", .initial = DEFAULT_TIME_LIMIT_NS),
  PS_OPTION_INCLUDE_AT (Options, diagnose.setting, ps_setting_options, 0),
  PS_OPTION ("", 0, PS_FILES (Options, traces), NULL, NULL),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "TRACE...",
  .summary
  = "Says where the time of a run goes and which schedule would be faster, from a few profiled steps: a\n"
    "timeline of pipesim, its Chrome trace, or a trace of PyTorch's profiler, Nsight Systems (.sqlite) or\n"
    "OpenTelemetry (.jsonl), or a folder with one of each rank. Several TRACEs are more iterations of the same run.",
  .text = "Idle time has a cause: warm-up and drain (before a device's first and after its last op), forward and\n"
          "backward (another device has yet to make the input), transfer (the input is under way), channel (it\n"
          "cannot travel yet), sync (the others' optimizer), host (posting and launching), and unexplained (input\n"
          "and turn were there and the op did not begin).\n\n"
          "Other schedules are predicted from the medians of the trace. If they have another number of stages, stages\n"
          "of the run are joined or divided evenly; a stage takes the same time on any device. A schedule fits if it\n"
          "needs no more memory than the run does, by the same count (of activations, where no bytes are told). If the "
          "trace does not have B and W apart,\n"
          "--costs-from with runs of other schedules, or --model, tells them. The run's own order is predicted too:\n"
          "beside its measured time, it shows how far to trust the predictions.\n",
  .examples = "pipesim diagnose measured.json\n"
              "pipesim diagnose measured.json --json --time-limit 0\n"
              "pipesim diagnose measured.json -o diagnosis.html\n",
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->diagnose.setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
is_page (const char *output)
{
  return g_str_has_suffix (output, ".html");
}

static gboolean
check_output (const Options *options, GError **error)
{
  const PsPicture picture = { .output = options->output };

  if (options->json && options->output != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--json and -o %s: give one of them", options->output);
  if (options->output != NULL && (options->columns.wide || options->columns.columns != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--columns and --wide are for printed tables, not for -o");
  if (options->title != NULL && options->output == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--title: belongs to -o");
  if (options->output != NULL && !is_page (options->output) && !ps_picture_check (&picture, NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "-o: '%s' does not end in .html, .svg, .png or .pdf", options->output);
  return ps_output_check ("-o", options->output, error);
}

static gboolean
check_options (const Options *options, GError **error)
{
  const PsCostSource *source = ps_setting_source (options->diagnose.setting);

  if (options->traces == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "no trace given; name a timeline, a trace, or a folder with one per rank");
  if (source != NULL && !g_str_equal (source->option, "costs-from"))
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: costs are those of the traces", source->option);
  return check_output (options, error) && ps_column_choice_check_json (&options->columns, options->json, error);
}

static gboolean
parse_options (int argc, char **argv, Options *options, GError **error)
{
  options->diagnose.setting = ps_setting_new ();
  options->diagnose.saving = 0.1;
  return ps_command_parse (&help, rows, options, &argc, &argv, error)
         && ps_setting_check (options->diagnose.setting, error) && check_options (options, error);
}

static gboolean
is_same_run (const PsTimeline *a, const PsTimeline *b)
{
  return a->n_devices == b->n_devices && a->n_stages == b->n_stages && a->n_microbatches == b->n_microbatches
         && a->origin == b->origin;
}

static gboolean
load (const Options *options, GPtrArray *iterations, GError **error)
{
  for (guint i = 0; options->traces[i] != NULL; i++)
    {
      g_autoptr (GPtrArray) more = ps_timelines_load (options->traces[i], error);

      if (more == NULL)
        return FALSE;
      const PsTimeline *first = more->pdata[0];
      if (first->remark != NULL)
        g_printerr ("%s: %s\n", g_get_prgname (), first->remark);
      if (iterations->len > 0 && !is_same_run (iterations->pdata[0], first))
        return ps_refuse (error, PS_ERROR_INPUT, "%s: %u devices, %u stages and %u microbatches, not as in %s",
                          options->traces[i], first->n_devices, first->n_stages, first->n_microbatches,
                          options->traces[0]);
      g_ptr_array_extend_and_steal (iterations, g_steal_pointer (&more));
    }
  return TRUE;
}

static gboolean
publish (const Options *options, const PsDiagnosis *diagnosis, GError **error)
{
  const PsPicture picture = { .output = options->output, .title = options->title };
  g_autofree char *text = NULL;

  if (options->output != NULL && !is_page (options->output))
    return ps_diagnose_plot (&picture, diagnosis, error);
  if (options->output != NULL)
    {
      text = ps_diagnose_page (diagnosis, options->title);
      return ps_write_file (options->output, text, -1, error);
    }
  text = options->json ? ps_diagnosis_to_json (diagnosis) : ps_diagnosis_to_text (diagnosis, &options->columns, error);
  return text != NULL && ps_print (text, error);
}

static gboolean
run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GPtrArray) iterations = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);

  if (!parse_options (argc, argv, &options, error) || !load (&options, iterations, error))
    return FALSE;
  options.diagnose.where = options.traces[0];
  g_autoptr (PsDiagnosis) diagnosis = ps_diagnosis_new (g_steal_pointer (&iterations), &options.diagnose, error);
  return diagnosis != NULL && publish (&options, diagnosis, error);
}

int
main (int argc, char **argv)
{
  return ps_plot_program ("pipesim diagnose", run, argc, argv);
}
