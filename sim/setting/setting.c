/* setting.c - what a setting says of its devices and its model: memory, speed, how transfers go, which layers are on
 * which device, and what options change of the model. */
#include "base/names.h"
#include "options.h"

#include <string.h>

PS_DEFINE_NAMES (PsServe, ps_serve, "none", "prefill")

guint ps_setting_zero (const PsSetting *setting)
{
  if (setting->zero != PS_ZERO_AUTO)
    return setting->zero;
  return setting->cluster != NULL && (setting->n_replicas > 1 || setting->n_context > 1);
}

gboolean ps_setting_transfers_wait (const PsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking || setting->share_links;
}

gboolean ps_setting_needs_events (const PsSetting *setting)
{
  return ps_setting_transfers_wait (setting) || setting->n_speeds || setting->overlap_slowdown > 1
         || setting->ready_order;
}

PsEventsSetting ps_setting_events (const PsSetting *setting)
{
  return (PsEventsSetting){ .comm = setting->comm,
                            .eager_bytes = setting->eager_bytes,
                            .blocking = setting->blocking,
                            .overlap_slowdown = setting->overlap_slowdown,
                            .overlap_waiting = setting->overlap_waiting,
                            .ready_order = setting->ready_order };
}

PsModel *ps_setting_read_model (const PsSetting *setting, GError **error)
{
  return setting->known_model != NULL ? ps_model_copy (setting->known_model) : ps_model_load (setting->model, error);
}

PsCluster *ps_setting_read_cluster (const PsSetting *setting, GError **error)
{
  return setting->known_cluster != NULL ? ps_cluster_copy (setting->known_cluster)
                                        : ps_cluster_load (setting->cluster, error);
}

PsFramework ps_setting_framework (const PsSetting *setting, const PsModel *model)
{
  PsFramework said = setting->framework != PS_FRAMEWORK_NONE ? setting->framework : model->framework;

  if (said != PS_FRAMEWORK_NONE || setting->has_framework || setting->cluster == NULL)
    return said;
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, NULL);
  return cluster != NULL && cluster->datasheet ? PS_FRAMEWORK_MEGATRON : said;
}

guint ps_setting_prompt (const PsSetting *setting, guint i)
{
  return setting->n_prompt_each > 0 ? setting->prompt_each[i % setting->n_prompt_each] : setting->prompt;
}

guint ps_setting_longest_prompt (const PsSetting *setting)
{
  guint longest = 0;

  for (guint i = 0; i < MAX (setting->n_prompt_each, 1); i++)
    longest = MAX (longest, ps_setting_prompt (setting, i));
  return longest;
}

/* The layout: a string of Megatron-LM's, a file that holds one, or as many layers for every stage. */

#define WHERE "--layout"

/* Words after "even", as Megatron-LM has them: --decoder-first-pipeline-num-layers and -last-,
 * --account-for-embedding-in-pipeline-split and -loss-. */
typedef struct {
  guint first; /* layers of the first device; 0: not given */
  guint last;
  guint embedding; /* 1: counts as a layer */
  guint loss;
} Even;

static gboolean read_even (const char *text, Even *even, GError **error)
{
  g_auto (GStrv) words = g_strsplit (text, ":", -1);

  for (guint i = 1; words[i] != NULL; i++) {
    char *equals = strchr (words[i], '=');
    guint *layers = g_str_has_prefix (words[i], "first=")  ? &even->first
                    : g_str_has_prefix (words[i], "last=") ? &even->last
                                                           : NULL;
    gint64 n;

    if (layers != NULL && !ps_parse_integer (WHERE, equals + 1, 1, PS_MAX_STAGES, &n, error))
      return FALSE;
    if (layers != NULL)
      *layers = (guint)n;
    else if (g_str_equal (words[i], "embedding"))
      even->embedding = 1;
    else if (g_str_equal (words[i], "loss"))
      even->loss = 1;
    else
      return ps_refuse (error, PS_ERROR_USAGE,
                        WHERE ": '%s' after even: is not one of first=N, last=N, embedding, loss", words[i]);
  }
  if ((even->embedding || even->loss) && (even->first || even->last))
    return ps_refuse (error, PS_ERROR_USAGE, WHERE ": %s: first and last leave no account for embedding and loss",
                      text);
  return TRUE;
}

static gboolean is_word (const char *text, const char *word)
{
  gsize length = strlen (word);

  return strncmp (text, word, length) == 0 && (text[length] == '\0' || text[length] == ':');
}

static gboolean is_open (const char *text)
{
  return g_str_equal (text, "best") || is_word (text, "even");
}

/* The string itself, or the one that the file of that name holds. */
static char *read_string (const char *text, GError **error)
{
  g_autofree char *pattern = g_strconcat (ps_unit_letters (), "|/[]", NULL);
  char *contents;
  gsize length;

  if (text[strspn (text, "vEtmL|,()*0123456789")] == '\0' || text[strspn (text, pattern)] == '\0')
    return g_strdup (text);
  if (!ps_read_file (text, &contents, &length, error)) {
    g_prefix_error (error,
                    WHERE ": neither even, best, a string of v, E, t, m, L and |, nor a pattern of * - E and |: ");
    return NULL;
  }
  return g_strchomp (contents);
}

/* Makes units of the model layers of their own where the layout cuts between units of a layer. */
static void unfold (const PsSetting *setting, PsModel *model)
{
  g_autofree char *text
      = setting->layout != NULL && !is_open (setting->layout) ? read_string (setting->layout, NULL) : NULL;

  if (text != NULL && ps_layout_cuts_layers (text, model))
    ps_model_unfold (model);
}

gboolean ps_setting_layout_parse (G_GNUC_UNUSED const char *where, const char *text, G_GNUC_UNUSED guint *value,
                                  GError **error)
{
  guint n;

  if (is_open (text))
    return read_even (text, &(Even){ 0 }, error);
  g_autofree char *string = read_string (text, error);
  g_autofree PsStageShape *shapes = string != NULL ? ps_layout_parse (WHERE, string, NULL, &n, error) : NULL;
  return shapes != NULL;
}

static PsStageShape *cut_as_said (const char *text, const PsModel *model, guint n_devices, guint n_chunks,
                                  GError **error)
{
  g_autofree char *string = read_string (text, error);
  guint n = 0;
  g_autofree PsStageShape *shapes = string != NULL ? ps_layout_parse (WHERE, string, NULL, &n, error) : NULL;

  if (shapes == NULL)
    return NULL;
  if (n != n_devices * n_chunks)
    return ps_refuse_null (error, PS_ERROR_USAGE, WHERE ": has %u stages; -p %u -v %u make %u", n, n_devices, n_chunks,
                           n_devices * n_chunks);
  return ps_layout_parse (WHERE, string, model, &n, error);
}

/* Gives every device its layers, spread evenly over its chunks; embedding and loss take the place of a layer each if
 * they count. */
static gboolean share_layers (const PsModel *model, const Even *even, guint n_devices, guint n_chunks,
                              PsStageShape *shapes, GError **error)
{
  guint fixed = even->first + even->last, n_fixed = (even->first > 0) + (even->last > 0);
  guint places = model->layers + even->embedding + even->loss, n_middle = n_devices - MIN (n_fixed, n_devices), usual,
        next = 0;

  g_assert (n_devices > 0);
  if (n_fixed > n_devices)
    return ps_refuse (error, PS_ERROR_USAGE, WHERE ": even: first and last are one device with -p %u", n_devices);
  if (n_middle == 0 && fixed != places)
    return ps_refuse (error, PS_ERROR_USAGE,
                      WHERE ": even: with -p %u first and last hold all %u layers of the model, not %u", n_devices,
                      model->layers, fixed);
  if (fixed > places || (n_middle > 0 && (places - fixed) % n_middle != 0))
    return ps_refuse (error, PS_ERROR_USAGE, WHERE ": even: %u layers do not divide evenly over %u devices",
                      fixed > places ? model->layers : places - fixed, n_middle);
  usual = n_middle > 0 ? (places - fixed) / n_middle : 0;
  for (guint s = 0, device = 0; s < n_devices * n_chunks; s++, device = device + 1 < n_devices ? device + 1 : 0) {
    guint n = device == 0 && even->first > 0              ? even->first
              : device + 1 == n_devices && even->last > 0 ? even->last
                                                          : usual;

    if (n % n_chunks != 0)
      return ps_refuse (error, PS_ERROR_USAGE, WHERE ": even: %u layers of a device do not divide over %u chunks", n,
                        n_chunks);
    shapes[s].n_layers
        = n / n_chunks - (s == 0 ? even->embedding : 0) - (s + 1 == n_devices * n_chunks ? even->loss : 0);
    shapes[s].first_layer = next;
    shapes[s].n_mtp = s + 1 == n_devices * n_chunks ? model->mtp : 0;
    next += shapes[s].n_layers;
  }
  return TRUE;
}

static PsStageShape *cut_even (const char *text, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_devices * n_chunks);
  Even even = { 0 };

  if (!ps_model_split (model, n_devices * n_chunks, shapes, error) || !read_even (text, &even, error)
      || (!g_str_equal (text, "even") && !share_layers (model, &even, n_devices, n_chunks, shapes, error)))
    return NULL;
  return g_steal_pointer (&shapes);
}

PsStageShape *ps_setting_cut (const char *text, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  return is_word (text, "even") ? cut_even (text, model, n_devices, n_chunks, error)
                                : cut_as_said (text, model, n_devices, n_chunks, error);
}

/* What the options change of model and machine. */

PsModel *ps_setting_given_model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_read_model (setting, error);

  if (model == NULL || !ps_model_set_precision (model, "--precision", setting->precision, error))
    return NULL;
  unfold (setting, model);
  if (setting->db == NULL)
    model->framework = ps_setting_framework (setting, model);
  if (setting->loss != PS_LOSS_WHOLE)
    model->loss = setting->loss;
  model->fp8_input_store |= setting->fp8_input_store;
  model->whole_sequences &= !setting->sequence_parallel;
  ps_model_set_state (model, &setting->state);
  if (setting->n_context > 1)
    model->spread.context = setting->n_context;
  if (setting->n_experts > 1)
    model->spread.experts = setting->n_experts;
  if (setting->serve != PS_SERVE_NONE) {
    model->serves = TRUE;
    model->mtp = 0; /* its modules guess further tokens */
  }
  guint sequence = setting->serve != PS_SERVE_NONE && setting->db == NULL ? ps_setting_longest_prompt (setting)
                                                                          : setting->sequence;
  return ps_model_resize (model, setting->serve != PS_SERVE_NONE ? 1 : setting->microbatch_size, sequence,
                          setting->images, error)
             ? g_steal_pointer (&model)
             : NULL;
}

PsCluster *ps_setting_cluster (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, error);

  if (cluster == NULL || !ps_cluster_group (cluster, setting->n_tensor, error)
      || !ps_cluster_join (cluster, setting->n_context, error))
    return NULL;
  cluster->spacing = setting->replicas_adjacent ? setting->n_replicas : 1;
  cluster->cuda_graphs = setting->cuda_graphs;
  cluster->dispatcher = setting->dispatcher;
  cluster->cp_comm = setting->cp_comm;
  if (!setting->tp_comm_overlap)
    cluster->tensor_overlap = 0;
  ps_cluster_scale (cluster, setting->bandwidth_factor, setting->network_factor, setting->latency_factor);
  return g_steal_pointer (&cluster);
}

/* Options that take one value for all devices or stages, or one for each. */
static gboolean check_count (const char *option, const char *what, guint n_given, guint n, const char *of,
                             GError **error)
{
  if (n_given <= 1 || n_given == n)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %ss for %u %s; one %s, or %u, would be right", option, n_given, what,
                    n, of, what, n);
}

PsRecompute ps_setting_recompute (const PsSetting *setting, guint stage)
{
  return setting->n_recompute > 0 ? setting->recompute_each[stage] : setting->recompute;
}

double ps_setting_offload (const PsSetting *setting, guint stage)
{
  return setting->n_offload > 0 ? setting->offload_each[stage] : setting->offload;
}

gboolean ps_setting_check_stages (const PsSetting *setting, guint n_stages, GError **error)
{
  return check_count ("--recompute", "kind", setting->n_recompute, n_stages, "stages", error)
         && check_count ("--offload", "ratio", setting->n_offload, n_stages, "stages", error);
}

gboolean ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error)
{
  if (!check_count ("--speed", "factor", setting->n_speeds, n_devices, "devices", error))
    return FALSE;
  *speeds = setting->n_speeds > 0 ? g_new (double, n_devices) : NULL;
  for (guint d = 0; *speeds != NULL && d < n_devices; d++)
    (*speeds)[d] = setting->speed[setting->n_speeds == 1 ? 0 : d];
  return TRUE;
}

gint64 ps_memory_reserve (gint64 memory_bytes, PsFramework framework)
{
  gint64 part = memory_bytes / 16, context = ps_framework_context_bytes (PS_FRAMEWORK_MEGATRON);

  return part + (framework == PS_FRAMEWORK_NONE ? MIN (part, context) : 0);
}

const char *ps_fits (gint64 excess_bytes, gint64 reserve)
{
  return excess_bytes <= 0 ? "yes" : excess_bytes <= reserve ? "tight" : "no";
}

/* The cluster's memory less its reserve. */
static gboolean cluster_memory (const PsSetting *setting, gint64 *memory, gint64 *reserve, GError **error)
{
  gboolean has_model = setting->known_model != NULL || setting->model != NULL;
  g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, error);
  g_autoptr (PsModel) model = cluster != NULL && has_model ? ps_setting_read_model (setting, error) : NULL;

  if (cluster == NULL || (has_model && model == NULL))
    return FALSE;
  *reserve = ps_memory_reserve (cluster->memory_bytes,
                                model != NULL ? ps_setting_framework (setting, model) : setting->framework);
  *memory = cluster->memory_bytes - *reserve;
  return TRUE;
}

gboolean ps_setting_memory_limit (const PsSetting *setting, guint n_devices, gint64 **limit, gint64 *reserve,
                                  GError **error)
{
  guint n_given = setting->n_memory_limits;
  gint64 memory = 0, free_bytes = 0;

  if (!check_count ("--memory-limit", "size", n_given, n_devices, "devices", error)
      || (n_given == 0 && setting->cluster != NULL && !cluster_memory (setting, &memory, &free_bytes, error)))
    return FALSE;
  if (reserve != NULL)
    *reserve = free_bytes;
  *limit = n_given > 0 || memory > 0 ? g_new (gint64, n_devices) : NULL;
  for (guint d = 0; *limit != NULL && d < n_devices; d++)
    (*limit)[d] = n_given == 0 ? memory : setting->memory_limit[n_given == 1 ? 0 : d];
  return TRUE;
}
