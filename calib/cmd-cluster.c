/* cmd-cluster.c - pipesim calib cluster: a description of the measured machine for --cluster, by rates that fit all
 * ops. */
#include "commands.h"

#include <pipesim/work.h>

#include <math.h>
#include <string.h>

/* Where less of the longest op is attention, its rate would be that of norms and activations. */
#define LEAST_PART 0.2

typedef struct {
  char *db;
  char *profile;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Profile to take", .otherwise = "all of one device"),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary
  = "Prints a cluster file with the rates of products and of attention that fit the measured F, B and W best, and "
    "with the measured link. Other models, sequences and slices than the measured ones are then predicted by "
    "--cluster. Profiles of a short and of a long sequence tell products from attention.",
  .examples = "pipesim calib cluster --db costs.db >here.ini\n"
              "pipesim calib cluster --db costs.db --profile here\n"
              "pipesim predict -s seq1f1b -p 2 -m 8 --model tiny-gpt --sequence 2048 --cluster here.ini\n",
};

/* The kinds of work, in the order of PsWorkClass. */
static const char *const keys[PS_FIT_AMOUNTS] = { "efficiency", "scores_efficiency", "attention_efficiency" };
G_STATIC_ASSERT (PS_WORK_PRODUCT == 0 && PS_WORK_SCORES == 1 && PS_WORK_ATTENTION == 2);

typedef struct {
  const PsProfile *first; /* whose device and host all have */
  guint n_profiles;
  guint n_devices;  /* most that were busy */
  GArray *amounts;  /* PsFitAmounts of each op: operations */
  GArray *ns;       /* gint64 */
  GArray *bytes;    /* gint64, of transfers of one profile */
  GArray *bytes_ns; /* gint64 */
} Evidence;

static void evidence_clear (Evidence *evidence)
{
  g_array_unref (evidence->amounts);
  g_array_unref (evidence->ns);
  g_array_unref (evidence->bytes);
  g_array_unref (evidence->bytes_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Evidence, evidence_clear)

/* Finds the stage of plain layers whose key that is. */
static gboolean find_shape (const PsModel *model, const char *key, PsStageShape *shape)
{
  for (guint i = 0; i < 4 * (model->layers + 1); i++) {
    *shape = (PsStageShape){ .n_layers = i / 4, .embedding = i % 2, .head = i / 2 % 2 };
    g_autofree char *own = ps_stage_shape_key (shape);

    if (g_str_equal (own, key))
      return TRUE;
  }
  return FALSE;
}

static void add_op (Evidence *evidence, const PsModel *model, const PsMeasurement *m)
{
  PsFitAmounts amounts = { { 0 } };
  PsStageShape shape;
  PsWork work;
  gint64 ns = MAX (m->time.median_ns, 1);

  if (m->kind > PS_OP_W || m->cache != PS_CACHE_RUN || !find_shape (model, m->shape, &shape))
    return;
  ps_work_stage (model, &shape, m->kind, 1, &work);
  for (guint i = 0; i < work.n_kernels; i++)
    if (work.kernel[i].type != PS_WORK_MEMORY)
      amounts.of[work.kernel[i].type] += (double)ps_work_kernel_flops (&work.kernel[i]);
  if (amounts.of[PS_WORK_PRODUCT] > 0) {
    g_array_append_val (evidence->amounts, amounts);
    g_array_append_val (evidence->ns, ns);
  }
}

/* Ops count while as many devices were busy as in a run. */
static gboolean add_profile (Evidence *evidence, PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autoptr (PsModel) model = ps_costdb_model (db, profile->name, error);
  g_autoptr (GPtrArray) measurements = model != NULL ? ps_costdb_measurements (db, profile->name, FALSE, error) : NULL;
  gboolean has_link = evidence->bytes->len > 0;
  guint busy = 1;

  for (guint i = 0; measurements != NULL && i < measurements->len; i++)
    busy = MAX (busy, ((const PsMeasurement *)measurements->pdata[i])->devices);
  for (guint i = 0; measurements != NULL && i < measurements->len; i++) {
    const PsMeasurement *m = measurements->pdata[i];
    gint64 ns = MAX (m->time.median_ns, 1);

    if (m->subject == PS_SUBJECT_OP && m->devices == busy)
      add_op (evidence, model, m);
    if (m->subject == PS_SUBJECT_TRANSFER && *m->shape == '\0' && !has_link) {
      g_array_append_val (evidence->bytes, m->bytes);
      g_array_append_val (evidence->bytes_ns, ns);
    }
  }
  evidence->n_profiles++;
  evidence->n_devices = MAX (evidence->n_devices, busy);
  return measurements != NULL;
}

/* The last calibration of each profile of one device with a model; name NULL: of all. */
static gboolean collect (Evidence *evidence, PsCostDb *db, GPtrArray *profiles, const char *name, GError **error)
{
  for (guint i = 0; i < profiles->len; i++) {
    const PsProfile *profile = profiles->pdata[i], *next = i + 1 < profiles->len ? profiles->pdata[i + 1] : NULL;

    if (*profile->model_text == '\0' || (next != NULL && ps_profile_is_same (profile, next)))
      continue;
    if (evidence->first == NULL)
      evidence->first = profile;
    if (!g_str_equal (profile->device, evidence->first->device) || !g_str_equal (profile->host, evidence->first->host))
      return ps_refuse (error, PS_ERROR_USAGE, "--profile: missing; '%s' and '%s' are of other devices or hosts",
                        evidence->first->name, profile->name);
    if (!add_profile (evidence, db, profile, error))
      return FALSE;
  }
  if (evidence->ns->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "--db: has no F, B or W of a model's layers%s%s",
                      name != NULL ? " in " : "", name != NULL ? name : "");
  return evidence->bytes->len >= 2
         || ps_refuse (error, PS_ERROR_INPUT, "--db: has no transfers; calib run measures them from -p 2 on");
}

static void append_rates (GString *text, const Evidence *evidence)
{
  const PsFitAmounts *amounts = (const PsFitAmounts *)(gpointer)evidence->amounts->data;
  const gint64 *ns = (const gint64 *)(gpointer)evidence->ns->data;
  PsFitAmounts one;
  double error = ps_fit_amounts (amounts, ns, evidence->ns->len, &one);

  g_string_append_printf (text, "# These rates meet %u measured ops of %u profile%s within %.1f %%.\n",
                          evidence->ns->len, evidence->n_profiles, evidence->n_profiles == 1 ? "" : "s", 100 * error);
  g_string_append_printf (text, "peak_flops = %.4g\nefficiency = 1\n", 1e9 / MAX (one.of[PS_WORK_PRODUCT], 1e-9));
  for (guint k = PS_WORK_SCORES; k < PS_FIT_AMOUNTS; k++) {
    double part = 0;

    for (guint i = 0; i < evidence->ns->len; i++)
      part = MAX (part, amounts[i].of[k] * one.of[k] / (double)ns[i]);
    if (part >= LEAST_PART)
      g_string_append_printf (text, "%s = %.4g\n", keys[k], CLAMP (one.of[PS_WORK_PRODUCT] / one.of[k], 0.001, 2));
    else if (part > 0)
      g_string_append_printf (
          text, "# %s: not known, for attention is less than %.0f %% of each op; measure a longer sequence.\n", keys[k],
          100 * LEAST_PART);
  }
}

static void append_link (GString *text, const Evidence *evidence)
{
  const gint64 *bytes = (const gint64 *)(gpointer)evidence->bytes->data,
               *ns = (const gint64 *)(gpointer)evidence->bytes_ns->data;
  guint last = evidence->bytes->len - 1;
  PsTransferFit fit;

  ps_transfer_fit (bytes, ns, last + 1, &fit);
  double slope = fit.piece[fit.n_pieces - 1].ns_per_byte;
  g_string_append_printf (text, "link_latency = %.0fns\nlink_bandwidth = %.4gGB/s\n", fit.alpha_ns,
                          slope > 0 ? 1 / slope : (double)bytes[last] / (double)ns[last]);
}

static gboolean print_cluster (gpointer base, PsProcesses *processes, GError **error)
{
  const Options *options = base;
  g_auto (Evidence) evidence = { .amounts = g_array_new (FALSE, FALSE, sizeof (PsFitAmounts)),
                                 .ns = g_array_new (FALSE, FALSE, sizeof (gint64)),
                                 .bytes = g_array_new (FALSE, FALSE, sizeof (gint64)),
                                 .bytes_ns = g_array_new (FALSE, FALSE, sizeof (gint64)) };
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) profiles = NULL;
  g_autoptr (GString) text = g_string_new (NULL);

  if (db != NULL && options->profile != NULL) {
    PsProfile *profile = ps_costdb_profile (db, options->profile, error);

    profiles = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_profile_free);
    if (profile == NULL)
      return FALSE;
    g_ptr_array_add (profiles, profile);
  } else if (db != NULL)
    profiles = ps_costdb_profiles (db, error);
  if (profiles == NULL || !collect (&evidence, db, profiles, options->profile, error))
    return FALSE;
  g_autofree char *line = g_strdup_printf ("# Device %s of %s, %s, measured %s.", evidence.first->device,
                                           evidence.first->host, evidence.first->processor, evidence.first->created);
  g_autofree char *printable = ps_format_line (line);
  g_string_append_printf (text, "%s\n[cluster]\nnodes = 1\ndevices_per_node = %u\n", g_strchomp (printable),
                          evidence.n_devices);
  append_rates (text, &evidence);
  append_link (text, &evidence);
  return ps_print (text->str, error);
}

const PsCalibCommand ps_calib_cluster = {
  "cluster", "print a cluster file of the measured machine", &help, rows, sizeof (Options), print_cluster, FALSE
};
