/* cmd-shipped.c - pipesim models and pipesim clusters: the descriptions that ship with pipesim. */
#include "commands.h"

#include <pipesim/cluster.h>
#include <pipesim/option.h>
#include <pipesim/model.h>

#include <string.h>

typedef struct
{
  gboolean json;
  PsColumnChoice columns;
  char **names; /* NULL: the list is asked for */
} Options;

static const PsOption rows[] = {
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print the list as JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("", 0, PS_FILES (Options, names), NULL, NULL),
  PS_OPTION_END,
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* One sort of description. */
typedef struct
{
  const char *folder;
  const char *format;
  PsCommandHelp help;
  const PsColumn *columns;
  guint n_columns;
  const char *const *usual; /* keys of the columns that are shown; the others with --wide */
  const char *const *exact; /* the same for a file of the user's own */
  gboolean (*add) (PsTable *table, const char *name, GError **error);
} Sort;

static const PsColumn model_columns[] = {
  { "name", "name", PS_COLUMN_TEXT },
  { "parameters", "parameters", PS_COLUMN_INTEGER },
  { "billion_parameters", "billion parameters", PS_COLUMN_NUMBER },
  { "active_parameters", "active parameters", PS_COLUMN_INTEGER },
  { "billion_active", "billion active", PS_COLUMN_NUMBER },
  { "layers", "layers", PS_COLUMN_INTEGER },
  { "hidden", "hidden", PS_COLUMN_INTEGER },
  { "heads", "heads", PS_COLUMN_INTEGER },
  { "experts", "experts", PS_COLUMN_INTEGER },
  { "sequence", "sequence", PS_COLUMN_INTEGER },
  { "precision", "precision", PS_COLUMN_TEXT },
  { "about", "source", PS_COLUMN_TEXT },
};

static const char *const model_usual[]
    = { "name", "billion_parameters", "billion_active", "layers", "hidden", "experts", "sequence", "precision", NULL };

static const char *const model_exact[]
    = { "name", "parameters", "active_parameters", "layers", "hidden", "experts", "sequence", "precision", NULL };

static gboolean
add_model (PsTable *table, const char *name, GError **error)
{
  g_autoptr (PsModel) model = ps_model_load (name, error);

  if (model == NULL)
    return FALSE;
  ps_table_set_text (table, "name", model->name);
  ps_table_set_integer (table, "parameters", ps_model_parameters (model));
  ps_table_set_ratio (table, "billion_parameters", (double)ps_model_parameters (model) / 1e9);
  ps_table_set_integer (table, "layers", model->layers);
  ps_table_set_integer (table, "hidden", model->hidden);
  ps_table_set_integer (table, "heads", model->heads);
  if (model->experts.count > 0)
    {
      ps_table_set_integer (table, "active_parameters", ps_model_active_parameters (model));
      ps_table_set_ratio (table, "billion_active", (double)ps_model_active_parameters (model) / 1e9);
      ps_table_set_integer (table, "experts", model->experts.count);
    }
  ps_table_set_integer (table, "sequence", model->sequence);
  ps_table_set_text (table, "precision", ps_precision_name (model->precision));
  return TRUE;
}

static const PsColumn cluster_columns[] = {
  { "name", "name", PS_COLUMN_TEXT },
  { "nodes", "nodes", PS_COLUMN_INTEGER },
  { "devices_per_node", "devices per node", PS_COLUMN_INTEGER },
  { "memory_bytes", "memory", PS_COLUMN_SIZE },
  { "peak_flops", "peak FLOP/s", PS_COLUMN_NUMBER },
  { "memory_bandwidth", "memory bandwidth", PS_COLUMN_RATE },
  { "link_bandwidth", "link bandwidth", PS_COLUMN_RATE },
  { "network_bandwidth", "network bandwidth", PS_COLUMN_RATE },
  { "about", "source", PS_COLUMN_TEXT },
};

static const char *const cluster_usual[] = { "name",       "nodes",          "devices_per_node",  "memory_bytes",
                                             "peak_flops", "link_bandwidth", "network_bandwidth", NULL };

static void
set_known (PsTable *table, const char *key, double value)
{
  if (value > 0)
    ps_table_set_ratio (table, key, value);
}

static gboolean
add_cluster (PsTable *table, const char *name, GError **error)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load (name, error);

  if (cluster == NULL)
    return FALSE;
  ps_table_set_text (table, "name", cluster->name);
  ps_table_set_integer (table, "nodes", cluster->nodes);
  ps_table_set_integer (table, "devices_per_node", cluster->devices_per_node);
  if (cluster->memory_bytes > 0)
    ps_table_set_integer (table, "memory_bytes", cluster->memory_bytes);
  set_known (table, "peak_flops", cluster->peak_flops);
  set_known (table, "memory_bandwidth", cluster->memory_bandwidth);
  set_known (table, "link_bandwidth", cluster->link_bandwidth);
  set_known (table, "network_bandwidth", cluster->network_bandwidth);
  return TRUE;
}

static const Sort models = {
  .folder = "models",
  .format = "pipesim-models/1",
  .help = { .arguments = "[NAME|FILE]",
            .summary = "Lists the models that ship with pipesim, for --model, or prints the description of one.",
            .text = "A model of your own is a copy of such a description: --model FILE.ini. --model also takes the\n"
                    "config.json of a model for Hugging Face's transformers. Of a FILE the number of parameters is\n"
                    "printed. data/README.md explains the keys and has the source of every figure.\n",
            .examples = "pipesim models\n"
                        "pipesim models --json\n"
                        "pipesim models llama-3-8b > mine.ini\n" },
  .columns = model_columns,
  .n_columns = G_N_ELEMENTS (model_columns),
  .usual = model_usual,
  .exact = model_exact,
  .add = add_model,
};

static const Sort clusters = {
  .folder = "clusters",
  .format = "pipesim-clusters/1",
  .help
  = { .arguments = "[NAME|FILE]",
      .summary = "Lists the clusters that ship with pipesim, for --cluster, or prints the description of one.",
      .text = "Figures are per device and in one direction, k, M, G, T and P decimal. A cluster of your own is a copy\n"
              "of such a description: --cluster FILE.ini. A FILE is checked and printed as a row. data/README.md\n"
              "explains the keys and has the source of every figure.\n",
      .examples = "pipesim clusters\n"
                  "pipesim clusters --json\n"
                  "pipesim clusters h100-80gb > mine.ini\n" },
  .columns = cluster_columns,
  .n_columns = G_N_ELEMENTS (cluster_columns),
  .usual = cluster_usual,
  .exact = cluster_usual,
  .add = add_cluster,
};

/* Those that ship, or files. */
static gboolean
print_list (const Sort *sort, const Options *options, char *const *files, GError **error)
{
  const char *none[] = { NULL };
  g_auto (GStrv) shipped = ps_shipped_names (sort->folder);
  char *const *names = files != NULL ? files : shipped;
  g_autoptr (PsTable) table = ps_table_new (sort->columns, sort->n_columns);

  if (!ps_column_choice_check (&options->columns, sort->columns, sort->n_columns, options->json, error))
    return FALSE;
  ps_table_choose (table, &options->columns, files != NULL ? sort->exact : sort->usual);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree char *description = ps_shipped_text (sort->folder, names[i]);
      g_autofree char *about = description != NULL ? ps_shipped_about (description) : NULL;

      ps_table_add_row (table);
      if (about != NULL)
        ps_table_set_text (table, "about", about);
      if (!sort->add (table, names[i], error))
        return FALSE;
    }
  g_autofree char *text = options->json ? ps_table_to_json (table, sort->format, none) : ps_table_to_text (table);
  return ps_print (text, error);
}

static gboolean
is_file (const Sort *sort, const char *name)
{
  g_autofree char *text = ps_shipped_text (sort->folder, name);

  return text == NULL && (strpbrk (name, "/.") != NULL || g_file_test (name, G_FILE_TEST_EXISTS));
}

static gboolean
print_one (const Sort *sort, const char *name, GError **error)
{
  g_autofree char *text = ps_shipped_text (sort->folder, name), *meant = NULL;
  g_auto (GStrv) names = ps_shipped_names (sort->folder);

  if (text != NULL)
    return ps_print (text, error);
  meant = ps_did_you_mean (name, (const char *const *)names, g_strv_length (names), "");
  return ps_refuse (error, PS_ERROR_USAGE, "'%s': none of the %s that ship; pipesim %s lists them%s", name,
                    sort->folder, sort->folder, meant);
}

static int
list (const Sort *sort, int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };

  if (!ps_command_parse (&sort->help, rows, &options, &argc, &argv, error))
    return 0;
  if (options.names == NULL || is_file (sort, options.names[0]))
    print_list (sort, &options, options.names, error);
  else if (options.json || options.names[1] != NULL)
    ps_refuse (error, PS_ERROR_USAGE, "%s: one description is printed as it is; --json is for the list",
               options.json ? "--json" : options.names[1]);
  else
    print_one (sort, options.names[0], error);
  return 0;
}

int
ps_cmd_models (int argc, char **argv, GError **error)
{
  return list (&models, argc, argv, error);
}

int
ps_cmd_clusters (int argc, char **argv, GError **error)
{
  return list (&clusters, argc, argv, error);
}
