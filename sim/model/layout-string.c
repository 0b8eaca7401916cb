/* layout-string.c - reads and writes Megatron-LM's strings for the stages of a model. */
#include <pipesim/model.h>

#include <string.h>

#define MAX_LENGTH (1 << 16)
#define MAX_UNITS (1 << 20)
#define MAX_PERIOD 16 /* stages of a group that is written */

static const char units[] = "EtmL"; /* in model order */

typedef struct
{
  const char *where;
  const char *text;
  GArray *shapes; /* PsStageShape */
  guint n_units;
  guint n_layers;
  char last; /* unit; NUL: none yet */
} Reader;

static gboolean
refuse (const Reader *reader, const char *at, const char *reason, GError **error)
{
  return ps_refuse (error, PS_ERROR_USAGE, "%s: character %u of the layout: %s", reader->where,
                    (guint)(at - reader->text) + 1, reason);
}

static gboolean
add_stage (Reader *reader, const char *at, GError **error)
{
  PsStageShape shape = { .first_layer = reader->n_layers };

  if (reader->shapes->len == PS_MAX_STAGES)
    return refuse (reader, at, "too many stages", error);
  g_array_append_val (reader->shapes, shape);
  return TRUE;
}

static gboolean
add_unit (Reader *reader, const char *at, GError **error)
{
  PsStageShape *shape = &g_array_index (reader->shapes, PsStageShape, reader->shapes->len - 1);

  if (reader->last != '\0' && strchr (units, *at) < strchr (units, reader->last))
    return refuse (reader, at, "a unit stands too late; their order is E, t, m, L", error);
  if (*at == 'E' && reader->last == 'E')
    return refuse (reader, at, "a second E; a model has one embedding", error);
  if (++reader->n_units > MAX_UNITS)
    return refuse (reader, at, "too many units", error);
  reader->last = *at;
  reader->n_layers += *at == 't';
  shape->embedding += *at == 'E';
  shape->n_layers += *at == 't';
  shape->n_mtp += *at == 'm';
  shape->head += *at == 'L';
  return TRUE;
}

/* Reads "*n" at *at if it is there, else n is 1. */
static gboolean
read_count (const Reader *reader, const char **at, guint *n, GError **error)
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

/* Reads from at to end, which holds no group. */
static gboolean
read_flat (Reader *reader, const char *at, const char *end, GError **error)
{
  while (at < end)
    {
      const char *unit = at++;
      guint n;

      if (*unit == ',')
        continue;
      if (strchr ("|EtmL", *unit) == NULL)
        return refuse (reader, unit, "no unit; E, t, m and L are, | ends a stage, * and () repeat", error);
      if (!read_count (reader, &at, &n, error))
        return FALSE;
      for (guint i = 0; i < n; i++)
        if (!(*unit == '|' ? add_stage : add_unit) (reader, unit, error))
          return FALSE;
    }
  return TRUE;
}

/* Reads the group that *at begins, and leaves *at after it. */
static gboolean
read_group (Reader *reader, const char **at, GError **error)
{
  const char *begin = *at + 1, *end = strchr (begin, ')');
  guint n;

  if (end == NULL)
    return refuse (reader, *at, "its ) is missing", error);
  if (begin + strspn (begin, ",") == end)
    return refuse (reader, *at, "an empty group", error);
  if (end[1] != '*')
    return refuse (reader, end, "a repeat goes after a group: (...)*2", error);
  *at = end + 1;
  if (!read_count (reader, at, &n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (!read_flat (reader, begin, end, error))
      return FALSE;
  return TRUE;
}

static gboolean
read_text (Reader *reader, GError **error)
{
  const char *at = reader->text;

  if (strlen (at) > MAX_LENGTH)
    return refuse (reader, at + MAX_LENGTH, "too long", error);
  if (!add_stage (reader, at, error))
    return FALSE;
  while (*at != '\0')
    {
      const char *end = at + strcspn (at, "(");

      if (!read_flat (reader, at, end, error))
        return FALSE;
      at = end;
      if (*at == '(' && !read_group (reader, &at, error))
        return FALSE;
    }
  if (reader->n_layers == 0)
    return refuse (reader, at, "ends without a t", error);
  return reader->last == 'L' || refuse (reader, at, "ends without L, the loss", error);
}

PsStageShape *
ps_layout_string_parse (const char *where, const char *text, guint *n_stages, GError **error)
{
  g_autoptr (GArray) shapes = g_array_new (FALSE, FALSE, sizeof (PsStageShape));
  Reader reader = { .where = where, .text = text, .shapes = shapes };
  const char *first = text + strspn (text, ",|");

  if (*first != 'E')
    {
      refuse (&reader, first, "E, the embedding, comes first", error);
      return NULL;
    }
  if (!read_text (&reader, error))
    return NULL;
  *n_stages = shapes->len;
  return (PsStageShape *)(gpointer)g_array_free (g_steal_pointer (&shapes), FALSE);
}

static void
write_units (GString *text, char unit, guint n)
{
  if (n > 2)
    g_string_append_printf (text, "%c*%u", unit, n);
  for (guint i = 0; n <= 2 && i < n; i++)
    g_string_append_c (text, unit);
}

static char *
write_stage (const PsStageShape *shape, gboolean is_last)
{
  GString *text = g_string_new (NULL);

  write_units (text, 'E', shape->embedding);
  write_units (text, 't', shape->n_layers);
  write_units (text, 'm', shape->n_mtp);
  write_units (text, 'L', shape->head);
  g_string_append (text, is_last ? "" : "|");
  return g_string_free (text, FALSE);
}

/* Times that the period stages from `first` on stand one after the other. */
static guint
count_repeats (char **stages, guint n_stages, guint first, guint period)
{
  guint n = period;

  while (first + n < n_stages && g_str_equal (stages[first + n], stages[first + n - period]))
    n++;
  return n / period;
}

/* Finds the group at `first` that saves most characters. *period is 0 where none saves any. */
static guint
find_group (char **stages, guint n_stages, guint first, guint *period)
{
  gsize length = 0, most = 0;
  guint best = 1;

  *period = 0;
  for (guint i = 1; i <= MAX_PERIOD && first + i <= n_stages; i++)
    {
      guint n = count_repeats (stages, n_stages, first, i);

      length += strlen (stages[first + i - 1]);
      if ((n - 1) * length > most + strlen ("()*2"))
        {
          most = (n - 1) * length - strlen ("()*2");
          *period = i;
          best = n;
        }
    }
  return best;
}

char *
ps_layout_string_write (const PsStageShape *shapes, guint n_stages)
{
  g_auto (GStrv) stages = g_new0 (char *, n_stages + 1);
  GString *text = g_string_new (NULL);
  guint period;

  for (guint s = 0; s < n_stages; s++)
    stages[s] = write_stage (&shapes[s], s + 1 == n_stages);
  for (guint s = 0; s < n_stages;)
    {
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
