/* setting-layout.c - what --layout says: a string of Megatron-LM's, a file that holds one, or as many layers for every
 * stage. */
#include "options.h"

#include <string.h>

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

void ps_setting_unfold (const PsSetting *setting, PsModel *model)
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
