/* cmd-shipped.c - pipesim models and pipesim clusters: the descriptions that ship with pipesim. */
#include "cli.h"

#include <pipesim/cluster.h>
#include <pipesim/model.h>

#include <string.h>

typedef struct {
  PsColumnChoice columns;
  char *like, *output;
  char **names; /* NULL: the list is asked for */
} Options;

static const PsOption rows[] = {
  PS_OPTION ("json", 0, PS_FLAG (Options, columns.json), NULL, "Print the list as JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("", 0, PS_FILES (Options, names), NULL, NULL),
  PS_OPTION_END,
};

static const PsOption cluster_rows[] = {
  PS_OPTION (
      "like", 0, PS_TEXT (Options, like), "NAME",
      "Print a file to start from: all keys of that cluster with their meaning, and KEY=VALUE in place of its own",
      .group = PS_GROUP_WHAT, .otherwise = "none"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "With --like: write it there", .group = PS_GROUP_OUTPUT,
             .otherwise = "standard output"),
  { .name = "", .type = PS_OPTION_ROWS, .rows = rows }, /* of the same base */
  PS_OPTION_END,
};

/* One sort of description. */
typedef struct {
  const char *folder;
  const char *format;
  const PsCellColumn *columns;
  guint n_columns;
  guint n_of_files;         /* the last of them */
  const char *const *wide;  /* keys of the columns that --wide alone shows */
  const char *const *exact; /* the same for a file of the user's own */
  gboolean (*add) (PsTable *table, const char *name, const char *about, GError **error);
  void (*note) (const char *path); /* what a file of the user's own leaves open */
} Sort;

typedef struct {
  const char *about;
  const char *name, *precision, *units, *unread;
  gint64 parameters, active_parameters, encoder_parameters;
  double billion_parameters, billion_active;
  guint layers, hidden, heads, experts, sequence;
} ModelRow;

static const PsCellColumn model_columns[] = {
  PS_CELL (ModelRow, name, "name", "name", TEXT),
  PS_CELL (ModelRow, parameters, "parameters", "parameters", INTEGER),
  PS_CELL (ModelRow, billion_parameters, "billion_parameters", "billion parameters", NUMBER),
  PS_CELL_KNOWN (ModelRow, active_parameters, "active_parameters", "active parameters", INTEGER),
  PS_CELL_KNOWN (ModelRow, billion_active, "billion_active", "billion active", NUMBER),
  PS_CELL_KNOWN (ModelRow, encoder_parameters, "encoder_parameters", "encoder parameters", INTEGER),
  PS_CELL (ModelRow, layers, "layers", "layers", INTEGER),
  PS_CELL (ModelRow, hidden, "hidden", "hidden", INTEGER),
  PS_CELL (ModelRow, heads, "heads", "heads", INTEGER),
  PS_CELL_KNOWN (ModelRow, experts, "experts", "experts", INTEGER),
  PS_CELL (ModelRow, sequence, "sequence", "sequence", INTEGER),
  PS_CELL (ModelRow, precision, "precision", "precision", TEXT),
  PS_CELL (ModelRow, units, "units", "units", TEXT),
  PS_CELL (ModelRow, about, "about", "source", TEXT),
  PS_CELL_KNOWN (ModelRow, unread, "unread", "not read", TEXT), /* of files alone */
};

static const char *const model_wide[]
    = { "parameters", "active_parameters", "encoder_parameters", "heads", "units", "about", NULL };

static const char *const model_exact[] = { "billion_parameters", "billion_active", "heads", "about", "unread", NULL };

static gboolean add_model (PsTable *table, const char *name, const char *about, GError **error)
{
  g_autoptr (PsModel) model = ps_model_load (name, error);

  if (model == NULL)
    return FALSE;
  g_autofree char *units = ps_model_units_text (model);
  gint64 parameters = ps_model_parameters (model);
  gint64 active = ps_model_active_parameters (model);
  const PsStageShape encoder = { .n_encoder = model->encoder.layers };

  active = active < parameters ? active : 0;
  ps_table_add (table, &(ModelRow){ .about = about,
                                    .name = model->name,
                                    .precision = ps_precision_name (model->precision),
                                    .units = units,
                                    .unread = model->unread,
                                    .parameters = parameters,
                                    .active_parameters = active,
                                    .encoder_parameters = ps_model_stage_parameters (model, &encoder),
                                    .billion_parameters = (double)parameters / 1e9,
                                    .billion_active = (double)active / 1e9,
                                    .layers = model->layers,
                                    .hidden = model->hidden,
                                    .heads = model->heads,
                                    .experts = model->experts.count,
                                    .sequence = model->sequence });
  return TRUE;
}

static const PsCellColumn cluster_columns[] = {
  PS_CELL (PsCluster, name, "name", "name", TEXT),
  PS_CELL (PsCluster, nodes, "nodes", "nodes", INTEGER),
  PS_CELL (PsCluster, devices_per_node, "devices_per_node", "devices per node", INTEGER),
  PS_CELL_KNOWN (PsCluster, memory_bytes, "memory_bytes", "memory", SIZE),
  PS_CELL_KNOWN (PsCluster, peak_flops, "peak_flops", "peak FLOP/s", NUMBER),
  PS_CELL_KNOWN (PsCluster, memory_bandwidth, "memory_bandwidth", "memory bandwidth", RATE),
  PS_CELL_KNOWN (PsCluster, link_bandwidth, "link_bandwidth", "link bandwidth", RATE),
  PS_CELL_KNOWN (PsCluster, network_bandwidth, "network_bandwidth", "network bandwidth", RATE),
  PS_CELL_SET ("about", "source", TEXT),
};

static const char *const cluster_wide[] = { "memory_bandwidth", "about", NULL };

static gboolean add_cluster (PsTable *table, const char *name, const char *about, GError **error)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load (name, error);

  if (cluster == NULL)
    return FALSE;
  ps_table_add (table, cluster);
  if (about != NULL)
    ps_table_set_text (table, "about", about);
  return TRUE;
}

static void note_assumed (const char *path)
{
  const PsSetting setting = { .cluster = (char *)path };

  ps_note_assumed (&setting);
}

static const Sort models = {
  .folder = "models",
  .format = "pipesim-models/1",
  .columns = model_columns,
  .n_columns = G_N_ELEMENTS (model_columns),
  .n_of_files = 1,
  .wide = model_wide,
  .exact = model_exact,
  .add = add_model,
  .note = ps_note_unread,
};

static const Sort clusters = {
  .folder = "clusters",
  .format = "pipesim-clusters/1",
  .columns = cluster_columns,
  .n_columns = G_N_ELEMENTS (cluster_columns),
  .wide = cluster_wide,
  .exact = cluster_wide,
  .add = add_cluster,
  .note = note_assumed,
};

/* Those that ship, or files. */
static gboolean print_list (const Sort *sort, const Options *options, char *const *files, GError **error)
{
  g_auto (GStrv) shipped = ps_shipped_names (sort->folder);
  char *const *names = files != NULL ? files : shipped;
  guint n_columns = sort->n_columns - (files == NULL ? sort->n_of_files : 0);
  g_autoptr (PsTable) table = ps_table_of (sort->columns, n_columns, NULL, 0, 0);

  if (!ps_table_choose (table, &options->columns, files != NULL ? sort->exact : sort->wide, error))
    return FALSE;
  for (guint i = 0; names[i] != NULL; i++) {
    g_autofree char *description = ps_shipped_text (sort->folder, names[i]);
    g_autofree char *about = description != NULL ? ps_shipped_about (description) : NULL;

    if (!sort->add (table, names[i], about, error))
      return FALSE;
    if (files != NULL && !options->columns.json)
      sort->note (names[i]);
  }
  return ps_table_print (table, sort->format, NULL, error);
}

static void print_like (const Options *options, GError **error)
{
  if (options->columns.json) {
    ps_refuse (error, PS_ERROR_USAGE, "--like and --json: the file is text; --json is for the list");
    return;
  }
  g_autofree char *text = ps_cluster_like (options->like, options->names, error);
  if (text == NULL)
    return;
  if (options->output != NULL)
    ps_write_file (options->output, text, -1, error);
  else
    ps_print (text, error);
}

static int run (const PsCmd *command, gpointer base, G_GNUC_UNUSED int argc, G_GNUC_UNUSED char **argv, GError **error)
{
  const Sort *sort = command->data;
  const Options *options = base;
  char *const *names = options->names;

  if (options->like != NULL || options->output != NULL || names == NULL) {
    if (options->like != NULL)
      print_like (options, error);
    else if (options->output != NULL)
      ps_refuse (error, PS_ERROR_USAGE, "--output: needs --like NAME, whose file to write");
    else
      print_list (sort, options, NULL, error);
    return 0;
  }
  g_autofree char *text = ps_shipped_text (sort->folder, names[0]);
  if (text == NULL && (strpbrk (names[0], "/.") != NULL || g_file_test (names[0], G_FILE_TEST_EXISTS)))
    print_list (sort, options, names, error);
  else if (options->columns.json || names[1] != NULL)
    ps_refuse (error, PS_ERROR_USAGE, "%s: one description is printed as it is; --json is for the list",
               options->columns.json ? "--json" : names[1]);
  else if (text != NULL)
    ps_print (text, error);
  else {
    g_auto (GStrv) all = ps_shipped_names (sort->folder);
    g_autofree char *meant = ps_did_you_mean (names[0], (const char *const *)all, g_strv_length (all), "");

    ps_refuse (error, PS_ERROR_USAGE, "'%s': none of the %s that ship; pipesim %s lists them%s", names[0], sort->folder,
               sort->folder, meant);
  }
  return 0;
}

const PsCmd ps_cmd_models = {
  .help
  = { .arguments = "[NAME|FILE]",
      .summary = "Lists the models that ship with pipesim, for --model, or prints the description of one.",
      .text = "A model of your own is a copy of such a description: --model FILE.ini. --model also takes the "
              "config.json of a model for Hugging Face's transformers. For a FILE the command prints the "
              "number of parameters, the units of its layers in turn, by the letters of Megatron-LM's hybrid "
              "patterns (* attention, w with a window, + latent, D sparse, M Mamba-2, G gated delta net, l linear,\n"
              "- MLP, E experts, multi-token prediction after /), and the keys that it does not know. data/README.md "
              "explains the keys and has the source of every figure.\n",
      .examples = "pipesim models\n"
                  "pipesim models --json\n"
                  "pipesim models llama-3-8b > mine.ini\n" },
  .rows = rows,
  .size = sizeof (Options),
  .run = run,
  .data = &models,
};

const PsCmd ps_cmd_clusters = {
  .help
  = { .arguments = "[NAME|FILE | --like NAME [KEY=VALUE...]]",
      .summary = "Lists the clusters that ship with pipesim, for --cluster, or prints the description of one.",
      .text = "Figures are per device and in one direction, k, M, G, T and P decimal. A cluster of your own is a copy "
              "of such a description: --cluster FILE.ini. A FILE is checked and printed as a row; keys that it omits "
              "are those of the nearest GPU that ships, and a note says which. data/README.md explains the keys and "
              "has the source of every figure.\n",
      .examples = "pipesim clusters\n"
                  "pipesim clusters --json\n"
                  "pipesim clusters h100-80gb > mine.ini\n"
                  "pipesim clusters --like h100-80gb nodes=64 network_bandwidth=25GB/s -o mine.ini\n" },
  .rows = cluster_rows,
  .size = sizeof (Options),
  .run = run,
  .data = &clusters,
};
