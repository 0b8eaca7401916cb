/* rows.h - measured runs of others, read from CSV files, and what pipesim predicts for each. */
#pragma once

#include <pipesim/work.h>
#include <pipesim/setting.h>

struct _Row;

/* A file of rows that were measured alike. */
typedef struct {
  const char *file;  /* its name begins so */
  const char *title; /* of its section */
  const char *cluster;
  /* Of the machine and its software, in place of the cluster's; 0: the cluster's. */
  double network;    /* bytes per second of a GPU */
  double split_ring; /* PsCluster.split_ring_bandwidth */
  gint64 kernel_ns;
  gint64 collective_ns;
  /* Fills the row from its columns. Returns why pipesim cannot express it (free with g_free), or NULL. */
  char *(*read) (struct _Row *row);
  gboolean from_one; /* one row of each series gives the speed of ops, the others are predicted with it as well */
  gboolean ratios;   /* with that speed alone: seconds or the cluster are not known */
  gboolean unfitted; /* no constant is chosen on its rows */
  gboolean whole;    /* a file is one run: its lines, the first one too, are the cells of one row */
  /* Another file of the folder, whose columns each row has, too: those of its line with the same cells in these
   * columns. NULL: none. */
  const char *joined;
  const char *const *keys; /* ends with NULL */
} DataSet;

typedef struct _Row {
  const DataSet *set;
  GStrv header, cells;
  char *name;
  char *series; /* rows of one series differ in layout or number of microbatches alone */
  char *class;  /* machine, number format, dense or experts; NULL: the data set has no classes */
  PsModel *model;
  PsSetting *setting;
  const char *schedule;
  const char *cluster;       /* NULL: that of the data set */
  gboolean routes;           /* nothing balances its experts, or its source says nothing of that */
  gboolean counts_tensors;   /* the measured bytes are those of tensors alone, without driver and libraries */
  gboolean is_last;          /* and of the last device, whose log states them */
  char *reason;              /* not predicted: why */
  const char *memory_reason; /* the same of its memory alone */
  double measured_s, predicted_s;
  double from_one_s; /* predicted with the speed that the run with most microbatches of its series has; 0: not so */
  double measured_bytes, predicted_bytes; /* of the fullest GPU; 0: not stated */
  double last_bytes;                      /* predicted, of the last device */
  gboolean out_of_memory;                 /* the run did not fit */
  PsProgram *program;                     /* kept between predictions */
  guint n_ring;                           /* GPUs of an all-reduce in one node, of ring_bytes; 0: the row is a step */
  gint64 ring_bytes;
  GArray *pair; /* of PsPairLayer: the row is one overlapped pair, and these are its parts; NULL: it is a step */
} Row;

/* The text and number of a column; "" and 0 where the file has none. */
const char *row_text (const Row *row, const char *column);
double row_number (const Row *row, const char *column);

guint row_count (const Row *row, const char *column); /* at least 1 */

/* Takes the sizes of the columns p v t d cp ep m, and the name from them. Megatron-LM without sequence parallelism:
 * replicas are neighbours, gradients are added up after the last backward. */
void row_set_layout (Row *row);

/* The description that ships, with `layers` of its layers (0: all) and the row's sequence and microbatch_size. */
gboolean row_load_model (Row *row, const char *name, guint layers);

/* The cluster that ships with that GPU. */
const char *row_gpu_cluster (const char *gpu);

/* One line of a CSV file. Free with g_strfreev. */
GStrv row_split (const char *line);

/* The DataSet.read of a pair, profiled kernel by kernel (pair.c). */
char *row_read_pair (Row *row);

/* The DataSet.read and keys of the recipes of Megatron Bridge (recipes.c), with a pipeline and without. */
char *row_read_recipe (Row *row);
char *row_read_one_stage (Row *row);
extern const char *const recipe_keys[];

/* The DataSet.read of further runs with a pipeline (more_runs.csv). */
char *row_read_further (Row *row);

/* All rows of the files in a folder that a data set knows, of Row, sorted by data set. Names of other .csv files go to
 * `others`. */
GPtrArray *rows_read (const char *folder, GPtrArray *others, GError **error);

/* The cluster that the row ran on. */
const char *row_cluster_name (const Row *row);

/* Predicts the row on its cluster, whose constants are those of `base`. speed: factor on the time of ops, 1 usually. */
void row_predict (Row *row, const PsCluster *base, double speed);

/* The predicted bytes that measured_bytes are of. */
double row_stated_bytes (const Row *row);

extern DataSet data_sets[]; /* fit_cluster changes their machines */
extern const guint n_data_sets;
