/* cmd-compare.c - pipesim compare: holds a predicted timeline against a measured one, or any two. */
#include "cli.h"

#include <pipesim/formats.h>
#include <pipesim/observe.h>

#include <math.h>

#define EXIT_OUTSIDE 3

typedef struct {
  guint n_worst;
  double tolerance; /* a ratio */
  PsColumnChoice columns;
  char **files;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("worst", 0, PS_COUNT (Options, n_worst, 0, PS_MAX_OPS), "N", "Ops to list, the most wrong first",
             .initial = 10, .group = PS_GROUP_OUTPUT),
  PS_OPTION ("tolerance", 0, PS_PERCENT (Options, tolerance, 0, PS_MAX_PERCENT), "PERCENT",
             "Exit with 3 when the two iteration times are further apart than this", .initial = INFINITY,
             .otherwise = "none"),
  PS_OPTION_TABLE (Options, columns, "pipesim-comparison/1"),
  PS_OPTION ("", 0, PS_FILES (Options, files), NULL, NULL),
  PS_OPTION_END,
};

static PsTimeline *load (const char *path, GError **error)
{
  PsTimeline *timeline = ps_timeline_load (path, error);

  if (timeline != NULL && timeline->remark != NULL)
    g_printerr ("%s: %s\n", g_get_prgname (), timeline->remark);
  return timeline;
}

static PsComparison *compare_files (const char *predicted_path, const char *measured_path, GError **error)
{
  g_autoptr (PsTimeline) predicted = load (predicted_path, error);
  g_autoptr (PsTimeline) measured = predicted != NULL ? load (measured_path, error) : NULL;
  PsComparison *comparison = measured != NULL ? ps_compare (predicted, measured, error) : NULL;

  if (measured != NULL && comparison == NULL)
    g_prefix_error (error, "%s and %s: ", predicted_path, measured_path);
  return comparison;
}

static int run (G_GNUC_UNUSED const PsCmd *command, gpointer base, G_GNUC_UNUSED int argc, G_GNUC_UNUSED char **argv,
                GError **error)
{
  Options *options = base;
  guint n = options->files != NULL ? g_strv_length (options->files) : 0;

  if (!ps_column_choice_check (&options->columns, error))
    return 1;
  if (n != 2)
    return ps_refuse (error, PS_ERROR_USAGE, "%u file%s given; two timelines are wanted", n, n == 1 ? "" : "s");
  g_autoptr (PsComparison) comparison = compare_files (options->files[0], options->files[1], error);
  if (comparison == NULL)
    return 1;
  g_autofree char *text = options->columns.json
                              ? ps_comparison_to_json (comparison, options->n_worst)
                              : ps_comparison_to_text (comparison, options->n_worst, &options->columns, error);
  if (text == NULL || !ps_print (text, error))
    return 1;
  /* An error that cannot be computed is within no tolerance. */
  return isinf (options->tolerance) || fabs (comparison->iteration_error) <= options->tolerance ? 0 : EXIT_OUTSIDE;
}

const PsCmd ps_cmd_compare = {
  .help = {
  .arguments = "FIRST SECOND",
  .summary = "Compares two timelines, op by op: a predicted with a measured one, two predictions or two runs, of "
             "one schedule or of two. Each is a timeline of pipesim, its Chrome trace, or a trace of PyTorch's "
             "profiler, Nsight Systems (.sqlite) or OpenTelemetry (.jsonl), or a folder with one of each rank.\n"
             "docs/traces.md says how to record them.",
  .examples = "pipesim compare predicted.json measured.json\n"
              "pipesim compare 1f1b.json zb-h1.json --worst 3\n"
              "pipesim compare predicted.json measured.json --tolerance 5 --json\n",
},
  .rows = rows,
  .size = sizeof (Options),
  .run = run,
};
