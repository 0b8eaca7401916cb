/* diagnose-main.c - the program pipesim-diagnose, run as `pipesim diagnose`: where the time of a run goes, and which
 * schedule would be faster. */
#include "page.h"
#include "plan/diagnosis.h"
#include "plots.h"

#include <pipesim/formats.h>
#include <pipesim/option.h>
#include <pipesim/plan.h>

/* The sections of a diagnosis, and its timelines. */

static char *sections_to_html (const PsDiagnosis *diagnosis)
{
  g_autoptr (GPtrArray) sections = ps_diagnosis_sections (diagnosis, G_MAXUINT);
  GString *html = g_string_new (NULL);

  for (guint i = 0; i < sections->len; i++) {
    const PsDiagnosisSection *section = sections->pdata[i];
    g_autofree char *title = g_markup_escape_text (section->title, -1);
    g_autofree char *id = g_strdup_printf ("section-%u", i + 1);
    g_autofree char *table = section->table != NULL ? ps_page_table (section->table, id) : g_strdup ("");

    title[0] = g_ascii_toupper (title[0]);
    g_string_append_printf (html, "<h2>%s</h2>\n<div class=\"wide\">%s</div>\n", title, table);
  }
  return g_string_free (html, FALSE);
}

/* The lines of the summary, one below the other. */
static char *summary_to_html (const PsDiagnosis *diagnosis)
{
  g_autofree char *summary = ps_diagnosis_summary (diagnosis);
  g_autofree char *escaped = g_markup_escape_text (g_strchomp (summary), -1);
  g_autoptr (GString) html = g_string_new (escaped);

  g_string_replace (html, "\n", "<br>\n", 0);
  return g_string_free (g_steal_pointer (&html), FALSE);
}

/* title NULL: the page's own. Free with g_free. */
static char *diagnose_page (const PsDiagnosis *diagnosis, const char *title, GError **error)
{
  g_autoptr (GPtrArray) timelines = g_ptr_array_new ();
  g_autofree char *sections = sections_to_html (diagnosis), *note = summary_to_html (diagnosis);
  g_autofree char *own = g_strdup_printf ("Where the time of %s goes", diagnosis->run->schedule);
  g_autofree char *drawings = NULL, *body = NULL;

  g_ptr_array_add (timelines, (gpointer)diagnosis->run);
  drawings = ps_page_timelines (timelines, "The median iteration of the run.", error);
  if (drawings == NULL)
    return NULL;
  body = g_strconcat (sections, drawings, NULL);
  return ps_page (title != NULL ? title : own, note, body);
}

/* The picture of a diagnosis. In pixels: */
#define WIDTH 1020
#define BAR 22
#define MAX_BARS 640 /* all devices together */
#define MARGINS 196  /* title, key and axes */
#define N_RIVALS 12

static guint32 part_colour (guint part)
{
  static const guint32 idle[PS_N_IDLE] = {
    [PS_IDLE_WARM_UP] = 0xdddddd,  [PS_IDLE_FORWARD] = 0xc5dcec, [PS_IDLE_BACKWARD] = 0xbfe5d6,
    [PS_IDLE_TRANSFER] = 0xf0e68c, [PS_IDLE_CHANNEL] = 0xc9b458, [PS_IDLE_DRAIN] = 0xc4c4c4,
    [PS_IDLE_SYNC] = 0x9a9a9a,     [PS_IDLE_HOST] = 0xb79ad1,    [PS_IDLE_UNEXPLAINED] = 0xd9534f,
  };

  if (part >= PS_DIAGNOSIS_N_BUSY)
    return idle[part - PS_DIAGNOSIS_N_BUSY];
  return part < PS_N_OP_KINDS ? ps_plot_op_colour ((PsOpKind)part, 0, 1) : ps_plot_op_colour (PS_OP_BW, 1, 2);
}

/* Appends the parts of each device's iteration, and what names them. */
static void append_parts (GString *script, const PsDiagnosis *diagnosis, const PsPlotUnit *unit)
{
  g_autofree gint64 *parts_ns = ps_diagnosis_parts (diagnosis);
  guint n_devices = diagnosis->run->n_devices, n_parts = 0;

  ps_gnuplot_append_array (script, "part", PS_DIAGNOSIS_N_PARTS);
  ps_gnuplot_append_array (script, "part_colour", PS_DIAGNOSIS_N_PARTS);
  ps_gnuplot_append_array (script, "bubble", n_devices);
  for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++) {
    gint64 sum_ns = 0;

    for (guint d = 0; d < n_devices; d++)
      sum_ns += parts_ns[d * PS_DIAGNOSIS_N_PARTS + part];
    if (sum_ns == 0)
      continue;
    ps_gnuplot_append_element (script, "part", ++n_parts, ps_diagnosis_part_title (part));
    g_string_append_printf (script, "part_colour[%u] = %u\n", n_parts, part_colour (part));
  }
  for (guint d = 0; d < n_devices; d++) {
    double busy = (double)diagnosis->metrics.device[d].busy_ns;
    g_autofree char *bubble
        = g_strdup_printf ("bubble %.4f", 1 - busy / (double)MAX (diagnosis->metrics.iteration_ns, 1));

    ps_gnuplot_append_tick (script, "bubble", d + 1, bubble);
  }
  g_string_append_printf (script, "n_parts = %u\nn_devices = %u\n$parts << EOD\n", n_parts, n_devices);
  for (guint d = 0; d < n_devices; d++) {
    double end = 0;

    for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++) {
      double start = end;

      end += (double)parts_ns[d * PS_DIAGNOSIS_N_PARTS + part] / unit->size;
      if (end > start)
        g_string_append_printf (script, "%u %.9g %.9g %u\n", d, start, end, part_colour (part));
    }
  }
  g_string_append (script, "EOD\n");
}

/* Appends the iterations of the run, of the best schedules and of the run as predicted. Returns their number. */
static guint append_rivals (GString *script, const PsDiagnosis *diagnosis)
{
  gint64 own_ns = diagnosis->prediction->metrics.iteration_ns, longest_ns = diagnosis->metrics.iteration_ns;
  g_autoptr (GString) bars = g_string_new ("$rivals << EOD\n");
  g_autofree char *measured = ps_format_time (diagnosis->metrics.iteration_ns);
  guint n = 1;

  ps_gnuplot_append_array (script, "rival", diagnosis->rivals->len + 1);
  ps_gnuplot_append_array (script, "rival_text", diagnosis->rivals->len + 1);
  ps_gnuplot_append_tick (script, "rival", n, ps_origin_name (diagnosis->run->origin));
  ps_gnuplot_append_tick (script, "rival_text", n, measured);
  for (guint i = 0; i < diagnosis->rivals->len; i++)
    if (i < N_RIVALS || ((const PsRival *)diagnosis->rivals->pdata[i])->is_run)
      longest_ns = MAX (longest_ns, ((const PsRival *)diagnosis->rivals->pdata[i])->iteration_ns);
  PsPlotUnit unit = ps_plot_time_unit (longest_ns);
  g_string_append_printf (bars, "%.9g %u\n", (double)diagnosis->metrics.iteration_ns / unit.size, 0x999999);
  for (guint i = 0; i < diagnosis->rivals->len; i++) {
    const PsRival *rival = diagnosis->rivals->pdata[i];
    g_autofree char *name = ps_rival_label (rival), *time = ps_format_time (rival->iteration_ns);
    g_autofree char *text
        = g_strdup_printf ("%s, %+.1f %%", time, 100 * ((double)rival->iteration_ns / (double)MAX (own_ns, 1) - 1));

    if (i >= N_RIVALS && !rival->is_run)
      continue;
    ps_gnuplot_append_tick (script, "rival", ++n, name);
    ps_gnuplot_append_tick (script, "rival_text", n, text);
    g_string_append_printf (bars, "%.9g %u\n", (double)rival->iteration_ns / unit.size,
                            rival->is_run ? 0x555555
                            : rival->fits ? 0x0072b2
                                          : 0x99c7e0);
  }
  g_string_append_printf (script, "%sEOD\nn_rivals = %u\n", bars->str, n);
  ps_gnuplot_append_text (script, "rival_unit", unit.name);
  ps_gnuplot_append_number (script, "own_time", (double)own_ns / unit.size);
  ps_gnuplot_append_number (script, "longest", (double)longest_ns / unit.size);
  return n;
}

/* Draws a bar for each device, of the parts of its iteration. Below, a bar shows the run's iteration, and one that of
 * each of the best schedules. Errors: those of ps_gnuplot_draw. */
static gboolean diagnose_plot (const PsPicture *picture, const PsDiagnosis *diagnosis, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree char *title = g_strdup_printf ("%s %s: where the iteration goes, and what other schedules would take",
                                            ps_origin_name (diagnosis->run->origin), diagnosis->run->schedule);
  PsPlotUnit unit = ps_plot_time_unit (diagnosis->metrics.iteration_ns);
  double bar = MIN (BAR, (double)MAX_BARS / diagnosis->run->n_devices);
  guint n_rivals = append_rivals (script, diagnosis);

  append_parts (script, diagnosis, &unit);
  ps_gnuplot_append_text (script, "unit", unit.name);
  ps_gnuplot_append_number (script, "bar", bar);
  ps_gnuplot_append_number (script, "iteration", (double)diagnosis->metrics.iteration_ns / unit.size);
  return ps_gnuplot_draw (picture, title, WIDTH, (guint)(MARGINS + bar * diagnosis->run->n_devices + BAR * n_rivals),
                          script->str, "diagnose.gp", error);
}

#define DEFAULT_TIME_LIMIT_NS G_GINT64_CONSTANT (2000000000)

typedef struct {
  PsDiagnoseOptions diagnose;
  char *output;
  char *title;
  PsColumnChoice columns;
  char **traces;
  PsFromChoice from;
  gboolean printed; /* the command line */
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE",
             "Write a page (.html) or a picture (.svg, .png, .pdf) in place of the text", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("title", 0, PS_TEXT (Options, title), "TEXT", "Title of the page or picture", .otherwise = "its own",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_TABLE (Options, columns, "pipesim-diagnosis/1"),
  PS_OPTION ("time-limit", 't', PS_TIME (Options, diagnose.time_limit_ns), "T",
             "How long to search for better schedules; 0: not at all", .initial = DEFAULT_TIME_LIMIT_NS),
  PS_OPTION_INCLUDE_AT (Options, diagnose.setting, ps_setting_options, 0),
  PS_OPTION ("", 0, PS_FILES (Options, traces), NULL, NULL),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "TRACE...",
  .summary
  = "Says where the time of a run goes and which schedule would be faster, from a few profiled steps: a "
    "timeline of pipesim, its Chrome trace, or a trace of PyTorch's profiler, Nsight Systems (.sqlite) or\n"
    "OpenTelemetry (.jsonl), or a folder with one of each rank. Several TRACEs are more iterations of the same run.",
  .text = "Idle time has a cause: warm-up and drain (before a device's first and after its last op), forward and "
          "backward (another device has yet to make the input), transfer (the input is being sent), channel (it "
          "cannot travel yet), sync (the others' optimizer), host (posting and launching), and unexplained (the op "
          "was next, had its input, and did not begin).\n\n"
          "Other schedules are predicted from the medians of the trace. If they have another number of stages, stages "
          "of the run are joined or divided evenly; a stage takes the same time on any device. A schedule fits if it "
          "needs no more memory than the run does, by the same count (of activations, where no bytes are told). If the "
          "trace does not have B and W apart, "
          "--costs-from with runs of other schedules, or --model, tells them. The run's own order is predicted too: "
          "compared with its measured time, this shows how far to trust the predictions.\n",
  .examples = "pipesim diagnose measured.json\n"
              "pipesim diagnose measured.json --json --time-limit 0\n"
              "pipesim diagnose measured.json -o diagnosis.html\n",
};

static void options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->diagnose.setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean is_page (const char *output)
{
  return g_str_has_suffix (output, ".html");
}

static gboolean check_output (const Options *options, GError **error)
{
  const PsPicture picture = { .output = options->output };

  if (options->columns.json && options->output != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--json and -o %s: give one of them", options->output);
  if (options->output != NULL && (options->columns.wide || options->columns.columns != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--columns and --wide are for printed tables, not for -o");
  if (options->title != NULL && options->output == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--title: belongs to -o");
  if (options->output != NULL && !is_page (options->output) && !ps_picture_check (&picture, NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "-o: '%s' does not end in .html, .svg, .png or .pdf", options->output);
  return ps_output_check ("-o", options->output, error);
}

static gboolean check_options (const Options *options, GError **error)
{
  const PsCostSource *source = ps_setting_source (options->diagnose.setting);

  if (options->traces == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "no trace given; name a timeline, a trace, or a folder with one per rank");
  if (source != NULL && (source->has_cluster || !g_str_equal (source->option, "costs-from")))
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: costs are those of the traces",
                      source->has_cluster ? "cluster" : source->option);
  return check_output (options, error) && ps_column_choice_check (&options->columns, error);
}

static gboolean parse_options (int argc, char **argv, Options *options, GError **error)
{
  options->diagnose.setting = ps_setting_new ();
  options->diagnose.saving = 0.1;
  g_auto (PsLaunchCommand) launch = { 0 };
  g_autofree char **line = NULL;
  if (!ps_launch_expand (rows, argv, &launch, error))
    return FALSE;
  if (launch.words != NULL) {
    argc = (int)g_strv_length (launch.words);
    argv = line = g_memdup2 (launch.words, ((gsize)argc + 1) * sizeof *argv);
  }
  if (launch.print) {
    options->printed = TRUE; /* no more is to do */
    return ps_launch_print (&launch, error);
  }
  ps_launch_note (&launch, NULL);
  return ps_command_parse (&help, rows, options, &argc, &argv, error)
         && ps_setting_check (options->diagnose.setting, error) && check_options (options, error);
}

static gboolean is_same_run (const PsTimeline *a, const PsTimeline *b)
{
  return a->n_devices == b->n_devices && a->n_stages == b->n_stages && a->n_microbatches == b->n_microbatches
         && a->origin == b->origin;
}

static gboolean load (const Options *options, GPtrArray *iterations, GError **error)
{
  for (guint i = 0; options->traces[i] != NULL; i++) {
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

static gboolean publish (const Options *options, const PsDiagnosis *diagnosis, GError **error)
{
  const PsPicture picture = { .output = options->output, .title = options->title };
  g_autofree char *text = NULL;

  if (options->output != NULL && !is_page (options->output))
    return diagnose_plot (&picture, diagnosis, error);
  if (options->output != NULL) {
    text = diagnose_page (diagnosis, options->title, error);
    return text != NULL && ps_write_file (options->output, text, -1, error);
  }
  text = options->columns.json ? ps_diagnosis_to_json (diagnosis)
                               : ps_diagnosis_to_text (diagnosis, &options->columns, error);
  return text != NULL && ps_print (text, error);
}

static gboolean run (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GPtrArray) iterations = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);

  if (!parse_options (argc, argv, &options, error))
    return FALSE;
  if (options.printed)
    return TRUE;
  if (!load (&options, iterations, error))
    return FALSE;
  options.diagnose.where = options.traces[0];
  g_autoptr (PsDiagnosis) diagnosis = ps_diagnosis_new (g_steal_pointer (&iterations), &options.diagnose, error);
  return diagnosis != NULL && publish (&options, diagnosis, error);
}

int main (int argc, char **argv)
{
  return ps_plot_program ("pipesim diagnose", run, argc, argv);
}
