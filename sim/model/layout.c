/* layout.c - the strings that say a model's cut into stages as Megatron-LM does: layout strings, and patterns of hybrid
 * models. */
#include "model-private.h"

#include <string.h>

#define MAX_LENGTH (1 << 16)
#define MAX_UNITS (1 << 20)
#define MAX_PERIOD 16 /* stages of a group that is written */

static const char units[] = "vEtmL"; /* in model order */

typedef struct {
  const char *where;
  const char *text;
  GArray *shapes; /* PsStageShape */
  guint n_units;
  guint n_layers;
  guint n_encoder;
  guint n_mtp;
  guint n_losses;
  char last;        /* unit of a layout string; NUL: none yet */
  GString *letters; /* the units of a pattern, as PsModel has them */
} Reader;

static gboolean refuse (const Reader *reader, const char *at, const char *reason, GError **error)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s: character %u of the layout: %s", reader->where,
                    (guint)(at - reader->text) + 1, reason);
}

static gboolean add_stage (Reader *reader, const char *at, GError **error)
{
  PsStageShape shape = { .first_layer = reader->n_layers, .first_encoder = reader->n_encoder };

  if (reader->shapes->len == PS_MAX_STAGES)
    return refuse (reader, at, "too many stages", error);
  g_array_append_val (reader->shapes, shape);
  return TRUE;
}

static PsStageShape *last_stage (const Reader *reader)
{
  return &g_array_index (reader->shapes, PsStageShape, reader->shapes->len - 1);
}

static gboolean add_unit (Reader *reader, const char *at, GError **error)
{
  PsStageShape *shape = last_stage (reader);

  if (reader->last != '\0' && strchr (units, *at) < strchr (units, reader->last))
    return refuse (reader, at, "a unit stands too late; their order is v, E, t, m, L", error);
  if (strchr ("vE", *at) == NULL && strchr ("v", reader->last) != NULL)
    return refuse (reader, at, "E, the embedding, comes first", error);
  if (*at == 'E' && reader->last == 'E')
    return refuse (reader, at, "a second E; a model has one embedding", error);
  if (++reader->n_units > MAX_UNITS)
    return refuse (reader, at, "too many units", error);
  reader->last = *at;
  reader->n_layers += *at == 't';
  reader->n_encoder += *at == 'v';
  shape->n_encoder += *at == 'v';
  reader->n_mtp += *at == 'm';
  reader->n_losses += *at == 'L';
  shape->embedding += *at == 'E';
  shape->n_layers += *at == 't';
  shape->n_mtp += *at == 'm';
  shape->head += *at == 'L';
  return TRUE;
}

/* Reads "*n" at *at if it is there, else n is 1. */
static gboolean read_count (const Reader *reader, const char **at, guint *n, GError **error)
{
  char *end;

  *n = 1;
  if (**at != '*')
    return TRUE;
  if (!g_ascii_isdigit ((*at)[1]))
    return refuse (reader, *at, "a number goes after *", error);
  guint64 value = g_ascii_strtoull (*at + 1, &end, 10);
  if (value < 1 || value > PS_MAX_STAGES)
    return refuse (reader, *at + 1, "give 1 to 16384 repeats", error);
  if (*end == '*')
    return refuse (reader, end, "a second repeat; put the first one in parentheses", error);
  *n = (guint)value;
  *at = end;
  return TRUE;
}

/* Reads from at to end. */
static gboolean read_units (Reader *reader, const char *at, const char *end, gboolean in_group, GError **error)
{
  while (at < end) {
    const char *begin = at++, *close = NULL;
    guint n;

    if (*begin == ',')
      continue;
    if (*begin == '(' && !in_group) {
      close = strchr (at, ')');
      if (close == NULL)
        return refuse (reader, begin, "its ) is missing", error);
      if (at + strspn (at, ",") == close)
        return refuse (reader, begin, "an empty group", error);
      if (close[1] != '*')
        return refuse (reader, close, "a repeat goes after a group: (...)*2", error);
      at = close + 1;
    } else if (strchr ("|vEtmL", *begin) == NULL)
      return refuse (reader, begin, "no unit; v, E, t, m and L are, | ends a stage, * and () repeat", error);
    if (!read_count (reader, &at, &n, error))
      return FALSE;
    for (guint i = 0; i < n; i++)
      if (!(close != NULL   ? read_units (reader, begin + 1, close, TRUE, error)
            : *begin == '|' ? add_stage (reader, begin, error)
                            : add_unit (reader, begin, error)))
        return FALSE;
  }
  return TRUE;
}

/* The only L is that of the model and of each module of multi-token prediction. */
static void give_losses (Reader *reader)
{
  for (guint s = 0; s < reader->shapes->len; s++) {
    PsStageShape *shape = &g_array_index (reader->shapes, PsStageShape, s);

    shape->head *= 1 + reader->n_mtp;
  }
  reader->n_losses = 1 + reader->n_mtp;
}

static gboolean read_layout (Reader *reader, GError **error)
{
  const char *end = reader->text + strlen (reader->text);

  if (!add_stage (reader, reader->text, error) || !read_units (reader, reader->text, end, FALSE, error))
    return FALSE;
  if (reader->n_layers == 0)
    return refuse (reader, end, reader->last == '\0' ? "E, the embedding, comes first" : "ends without a t", error);
  if (reader->last != 'L')
    return refuse (reader, end, "ends without L, the loss", error);
  if (reader->n_losses == 1)
    give_losses (reader);
  return reader->n_losses == 1 + reader->n_mtp
         || refuse (reader, strchr (reader->text, 'L'), "give one L for all losses, or one more than there are m",
                    error);
}

/* Each letter is a layer. Brackets make layers one for Megatron-LM, and change nothing here. */
static gboolean read_pattern (Reader *reader, GError **error)
{
  gboolean in_brackets = FALSE;
  const char *at = reader->text;

  if (!add_stage (reader, at, error))
    return FALSE;
  for (; *at != '\0' && *at != '/'; at++) {
    if (*at == (in_brackets ? ']' : '['))
      in_brackets = !in_brackets;
    else if (*at == '|' && !in_brackets) {
      if (!add_stage (reader, at, error))
        return FALSE;
    } else if (ps_unit_find (*at) == PS_N_UNIT_KINDS)
      return ps_refuse (error, PS_ERROR_USAGE,
                        "%s: character %u of the layout: no layer; %s are, | ends a stage, / begins multi-token "
                        "prediction",
                        reader->where, (guint)(at - reader->text) + 1, ps_unit_letters ());
    else {
      g_string_append_c (reader->letters, *at);
      last_stage (reader)->n_layers++;
      reader->n_layers++;
    }
  }
  if (in_brackets || reader->n_layers == 0)
    return refuse (reader, at, in_brackets ? "ends without a ]" : "ends without a layer", error);
  g_auto (GStrv) modules = g_strsplit (at, "/", -1); /* the first is empty */
  for (guint i = 1; *at != '\0' && modules[i] != NULL; i++)
    if (*modules[i] == '\0' || !g_str_equal (modules[i], modules[1]))
      return refuse (reader, at, "modules of multi-token prediction are alike, /*E/*E", error);
  if (*at != '\0')
    g_string_append_printf (reader->letters, "/%s", modules[1]);
  g_array_index (reader->shapes, PsStageShape, 0).embedding = TRUE;
  reader->n_mtp = *at != '\0' ? g_strv_length (modules) - 1 : 0;
  last_stage (reader)->n_mtp = reader->n_mtp;
  last_stage (reader)->head = 1 + reader->n_mtp;
  return TRUE;
}

gboolean ps_layout_is_pattern (const char *text)
{
  return *text != '\0' && strpbrk (text, "tL(),") == NULL;
}

/* Checks that the layout has the units of the model, and turns letters into its layers. */
static gboolean fit_model (const Reader *reader, const PsModel *model, GError **error)
{
  guint n_layers = 0, letters = 1, n_encoder = ps_model_encoder_layers (model);
  PsUnitKind kinds[2];

  if (reader->letters->len > 0) {
    g_autofree char *own = ps_model_pattern (model), *plain = ps_model_megatron_pattern (model);
    const char *given = reader->letters->str;
    gsize i = 0;

    while (own[i] != '\0' && (given[i] == own[i] || given[i] == plain[i]))
      i++;
    if (own[i] != given[i])
      return ps_refuse (error, PS_ERROR_USAGE,
                        "%s: layer %" G_GSIZE_FORMAT " of the pattern is not that of model '%s', whose layers are %s",
                        reader->where, i + 1, model->name, own);
    letters = ps_model_layer_units (model, 0, kinds);
  }
  for (guint s = 0; s < reader->shapes->len; s++) {
    PsStageShape *shape = &g_array_index (reader->shapes, PsStageShape, s);

    if (shape->first_layer % letters > 0)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: stage %u begins within a layer of model '%s'", reader->where, s,
                        model->name);
    shape->first_layer /= letters;
    shape->n_layers /= letters;
    n_layers += shape->n_layers;
  }
  const struct {
    const char *unit;
    guint n, wanted;
  } rows[]
      = { { "v", reader->n_encoder, n_encoder }, { "t", n_layers, model->layers }, { "m", reader->n_mtp, model->mtp } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].n != rows[i].wanted)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: has %u %s; model '%s' has %u", reader->where, rows[i].n,
                        rows[i].unit, model->name, rows[i].wanted);
  return TRUE;
}

PsStageShape *ps_layout_parse (const char *where, const char *text, const PsModel *model, guint *n_stages,
                               GError **error)
{
  g_autoptr (GArray) shapes = g_array_new (FALSE, FALSE, sizeof (PsStageShape));
  g_autoptr (GString) letters = g_string_new (NULL);
  Reader reader = { .where = where, .text = text, .shapes = shapes, .letters = letters };

  if (strlen (text) > MAX_LENGTH)
    refuse (&reader, text + MAX_LENGTH, "too long", error);
  else if ((ps_layout_is_pattern (text) ? read_pattern : read_layout) (&reader, error)
           && (model == NULL || fit_model (&reader, model, error))) {
    *n_stages = shapes->len;
    return (PsStageShape *)(gpointer)g_array_free (g_steal_pointer (&shapes), FALSE);
  }
  return NULL;
}

gboolean ps_layout_cuts_layers (const char *text, const PsModel *model)
{
  guint n = 0;
  gboolean cuts = FALSE;
  PsUnitKind kinds[2];
  g_autofree PsStageShape *shapes = ps_layout_is_pattern (text) ? ps_layout_parse ("", text, NULL, &n, NULL) : NULL;

  for (guint s = 0; shapes != NULL && s < n; s++)
    cuts |= shapes[s].first_layer % ps_model_layer_units (model, 0, kinds) > 0;
  return cuts;
}

static void write_units (GString *text, char unit, guint n)
{
  if (n > 2)
    g_string_append_printf (text, "%c*%u", unit, n);
  for (guint i = 0; n <= 2 && i < n; i++)
    g_string_append_c (text, unit);
}

/* Where one stage has all losses of the model they are one L. */
static char *write_stage (const PsStageShape *shape, guint n_losses, gboolean is_last)
{
  GString *text = g_string_new (NULL);

  write_units (text, 'v', shape->n_encoder);
  write_units (text, 'E', shape->embedding);
  write_units (text, 't', shape->n_layers);
  write_units (text, 'm', shape->n_mtp);
  write_units (text, 'L', shape->head == n_losses ? MIN (n_losses, 1) : shape->head);
  g_string_append (text, is_last ? "" : "|");
  return g_string_free (text, FALSE);
}

/* Times that the period stages from `first` on stand one after the other. */
static guint count_repeats (char **stages, guint n_stages, guint first, guint period)
{
  guint n = period;

  while (first + n < n_stages && g_str_equal (stages[first + n], stages[first + n - period]))
    n++;
  return n / period;
}

/* Finds the group at `first` that saves most characters. *period is 0 where none saves any. */
static guint find_group (char **stages, guint n_stages, guint first, guint *period)
{
  gsize length = 0, most = 0;
  guint best = 1;

  *period = 0;
  for (guint i = 1; i <= MAX_PERIOD && first + i <= n_stages; i++) {
    guint n = count_repeats (stages, n_stages, first, i);

    length += strlen (stages[first + i - 1]);
    if ((n - 1) * length > most + strlen ("()*2")) {
      most = (n - 1) * length - strlen ("()*2");
      *period = i;
      best = n;
    }
  }
  return best;
}

static char *write_string (const PsStageShape *shapes, guint n_stages)
{
  g_auto (GStrv) stages = g_new0 (char *, n_stages + 1);
  GString *text = g_string_new (NULL);
  guint n_losses = 0, period;

  for (guint s = 0; s < n_stages; s++)
    n_losses += shapes[s].head;
  for (guint s = 0; s < n_stages; s++)
    stages[s] = write_stage (&shapes[s], n_losses, s + 1 == n_stages);
  for (guint s = 0; s < n_stages;) {
    guint n = find_group (stages, n_stages, s, &period);
    gboolean more = s + n * period < n_stages && g_ascii_isalpha (*stages[s + n * period]);

    if (period > 0)
      g_string_append_c (text, '(');
    for (guint i = 0; i < MAX (period, 1); i++)
      g_string_append (text, stages[s + i]);
    if (period > 0)
      g_string_append_printf (text, ")*%u%s", n, more ? "," : "");
    s += MAX (n * period, 1);
  }
  return g_string_free (text, FALSE);
}

char *ps_layout_write (const char *pattern, const PsStageShape *shapes, guint n_stages)
{
  gsize n_layers = 0, n_letters = pattern != NULL ? strcspn (pattern, "/") : 0;
  gboolean can_say = pattern != NULL;
  const char *at = pattern;

  for (guint s = 0; s < n_stages; s++) {
    n_layers += shapes[s].n_layers;
    can_say &= shapes[s].n_encoder == 0 && shapes[s].embedding == (s == 0)
               && (shapes[s].head > 0) == (s + 1 == n_stages) && (shapes[s].n_mtp == 0 || s + 1 == n_stages);
  }
  if (!can_say)
    return write_string (shapes, n_stages);
  GString *text = g_string_new (NULL);
  for (guint s = 0; s < n_stages; s++) {
    gsize n = n_layers > 0 ? shapes[s].n_layers * (n_letters / n_layers) : 0;

    g_string_append_len (g_string_append (text, s > 0 ? "|" : ""), at, (gssize)n);
    at += n;
  }
  for (guint i = 0; i < shapes[n_stages - 1].n_mtp; i++)
    g_string_append (text, pattern + n_letters);
  return g_string_free (text, FALSE);
}

char *ps_model_units_text (const PsModel *model)
{
  g_auto (GStrv) layers = g_new0 (char *, model->layers + 1);
  GString *text = g_string_new (NULL);
  guint n_encoder = ps_model_encoder_layers (model);
  PsUnitKind kinds[2];
  guint period;

  for (guint layer = 0; layer < model->layers; layer++) {
    char letters[3] = { 0 };

    for (guint i = 0, n = ps_model_layer_units (model, layer, kinds); i < n; i++)
      letters[i] = ps_unit_row (kinds[i])->letter;
    layers[layer] = g_strdup (letters);
  }
  if (n_encoder > 0)
    g_string_append_printf (text, "(%c)x%u", ps_unit_row (PS_UNIT_ENCODER)->letter, n_encoder);
  for (guint layer = 0; layer < model->layers;) {
    guint n = find_group (layers, model->layers, layer, &period);

    g_string_append (text, period > 0 ? "(" : "");
    for (guint i = 0; i < MAX (period, 1); i++)
      g_string_append (text, layers[layer + i]);
    if (period > 0)
      g_string_append_printf (text, ")x%u", n);
    layer += MAX (n * period, 1);
  }
  return g_string_free (text, FALSE);
}
