/* cmd-help.c - pages of pipesim help TOPIC; what the library has a table of is printed from it. */
#include "cli.h"

#include <pipesim/formats.h>

#include <string.h>

static char *write_costs (void)
{
  GString *text = g_string_new (
      "The times of ops and transfers come from one of three sources. Every prediction says which.\n\n"
      "given     --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB\n"
      "measured  --db costs.db [--profile NAME], from pipesim calib run on the machine itself\n"
      "          --costs-from PATH, from a run of any program: a timeline, a trace, a folder with one per rank, "
      "or the log of Megatron-LM's timers\n"
      "modelled  --model FILE --cluster FILE, by published formulas from the shape of the model and the rates of the "
      "cluster: matrix products at its efficiency=, all else at its memory_bandwidth=, and no better than "
      "these are; with --tensor T the T GPUs of a device share every layer and the sequence, and sizes are "
      "those of one of them\n\n"
      "Keys of --costs; a value is a device's whole share and is split evenly over its chunks, a list f=1ms:2ms:... "
      "has one value per stage. c and msg are per transfer and never split.\n");

  for (const PsOption *option = ps_setting_options; option->name != NULL; option++)
    if (g_str_has_prefix (option->name, "costs."))
      g_string_append_printf (text, "  %-8s %s\n", option->name + strlen ("costs."), option->help);
  return g_string_free (text, FALSE);
}

static char *write_settings (void)
{
  g_autofree char *options = ps_command_options (ps_setting_options);

  return g_strconcat (
      "These options describe the pipeline, its costs and its machine. predict, search, partition, schedule and exec "
      "take them. In the spec of pipesim sweep they are fields without the dashes.\n\n",
      options, NULL);
}

static char *write_formats (void)
{
  guint n;
  const PsFormat *const *formats = ps_format_table (&n);
  GString *text = g_string_new ("Formats of schedules, for pipesim schedule convert --to:\n");

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "  %-16s %s\n", formats[i]->name, formats[i]->description);
  g_string_append (
      text,
      "\nA schedule FILE may be in any readable format. pipesim recognises the format from the contents. A native "
      "one by hand, where F1.0 is the forward of microbatch 1 on stage 0, and placement has each stage's device:\n"
      "  {\"format\": \"pipesim-schedule/1\", \"name\": \"mine\", \"devices\": 2, \"stages\": 2, "
      "\"microbatches\": 2,\n"
      "   \"placement\": [[0, 1]], \"order\": [[\"F0.0\", \"F1.0\", \"BW0.0\", \"BW1.0\"],\n"
      "                                    [\"F0.1\", \"BW0.1\", \"F1.1\", \"BW1.1\"]]}\n\n"
      "Timelines (predict -o, exec --trace, compare, plot) are pipesim's own JSON; FILE.trace.json is a Chrome "
      "trace. Any FILE.gz is packed when written, and packed files are read. The output of --json begins with "
      "its format and version, such as pipesim-predict/1.\n");
  return g_string_free (text, FALSE);
}

static char *write_units (void)
{
  return g_strdup (
      "Times    40ns, 250us (or 250µs), 1.5ms, 2s; a unit is required except for 0. Stored as whole nanoseconds.\n"
      "Sizes    512B, 64KiB, 80GB, 1.5GiB; kB to TB (also k, M, G, T) are decimal, KiB to TiB binary; case does not\n"
      "         count; a unit is required except for 0.\n"
      "Rates    10GB/s, 25GiB/s, 400Gbit/s; bits, kB, MB, GB and TB are decimal, KiB to TiB binary.\n\n"
      "JSON and CSV hold integer nanoseconds (keys that end in _ns), integer bytes (_bytes) and plain ratios.\n\n"
      "bubble of iteration = 1 - busy time / (p * iteration time)\n"
      "bubble of span      = 1 - (busy time / p) / longest span of a device\n"
      "Busy time is that of F, B, W and recomputing. A device counts as idle while it steps its optimizer, and waits "
      "for "
      "all-reduces or transfers.\n");
}

static char *write_bounds (void)
{
  return g_strdup (
      "The lower bound of a prediction holds for every order of the ops under the same placement, costs and "
      "number of microbatches, with any memory. It is the largest of\n"
      "- per device: the first microbatch's earliest arrival, plus all the device's work;\n"
      "- per microbatch: all forwards and backwards for the input with the transfers between them, then W of stage 0.\n"
      "Where iterations overlap (asynchronous schedules, --sync bypass) it is all the work of the busiest device.\n\n"
      "pipesim search prints a bound for all schedules within --memory-limit. This bound adds the time that a device "
      "must idle because no more forwards fit before its first gradient arrives, and the work left after its last "
      "forward. A gap of 0 proves a schedule optimal. docs/bounds.md in the sources has the proofs.\n");
}

static char *write_memory (void)
{
  return g_strdup (
      "The limit of a device is --memory-limit, or the memory that the cluster states, as PyTorch reports it. Of a "
      "cluster's memory a reserve stays free: 5 GB, at most a sixteenth, for driver and NCCL (nothing where "
      "--framework "
      "counts them in the peak), and a sixteenth for fragmentation and errors of prediction. plan --reserve gives "
      "another. Nothing of --memory-limit is reserved.\n\n"
      "fits    peak memory of every device\n"
      "yes     leaves the reserve free\n"
      "tight   touches the reserve, but is within the memory\n"
      "no      is above the memory\n\n"
      "predict lists what fits first; a prediction that does not fit is no error. plan and search find only what fits, "
      "and fail with exit code 1 where nothing does; best, pareto and sensitivity ask only for such rows of a sweep. "
      "In "
      "JSON and in databases \"feasible\" is true for yes alone.\n");
}

const PsHelpTopic ps_help_topics[] = {
  { "costs", write_costs, "the sources of costs, and the keys of --costs" },
  { "settings", write_settings, "the options that most commands share" },
  { "formats", write_formats, "files of schedules and timelines" },
  { "memory", write_memory, "what fits, and what stays free" },
  { "units", write_units, "times, sizes, rates, and ratios" },
  { "bounds", write_bounds, "the meaning of the lower bound" },
  { NULL, NULL, NULL },
};
