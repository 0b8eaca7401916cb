/* option.c - reads and tells the values of options by their rows. */
#include <pipesim/option.h>

#include <string.h>

static gpointer
base_of (const PsOption *include, gpointer base)
{
  gpointer member = G_STRUCT_MEMBER_P (base, include->offset);

  return include->type == PS_OPTION_ROWS_AT ? *(gpointer *)member : member;
}

const PsOption *
ps_option_find (const PsOption *rows, const char *name)
{
  for (; rows->name != NULL; rows++)
    if (rows->rows == NULL && g_str_equal (rows->name, name))
      return rows;
  return NULL;
}

/* Reading */

static gboolean
read_flag (const char *where, const char *text, gboolean *flag, GError **error)
{
  *flag = text == NULL || g_str_equal (text, "yes");
  if (*flag || g_str_equal (text, "no"))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' is neither yes nor no", where, text);
  return FALSE;
}

static gboolean
read_integer (const PsOption *option, const char *where, const char *text, gint64 *value, GError **error)
{
  gint64 high = option->high > 0 ? (gint64)option->high : G_MAXINT64;

  return ps_parse_integer (where, text, (gint64)option->low, high, value, error);
}

static gboolean
read_count (const PsOption *option, const char *where, const char *text, guint *count, GError **error)
{
  gint64 value;

  if (!read_integer (option, where, text, &value, error))
    return FALSE;
  *count = (guint)value;
  return TRUE;
}

static gboolean
read_text (const PsOption *option, const char *where, const char *text, char **value, GError **error)
{
  guint index;

  if (option->parse != NULL && !option->parse (where, text, &index, error))
    return FALSE;
  g_free (*value);
  *value = g_strdup (text);
  return TRUE;
}

static void
add_text (const char *text, char ***texts)
{
  guint n = *texts != NULL ? g_strv_length (*texts) : 0;

  *texts = g_renew (char *, *texts, n + 2);
  (*texts)[n] = g_strdup (text);
  (*texts)[n + 1] = NULL;
}

/* "1GiB:2GiB". g_strsplit makes no part of "": the parser of one empty part reports the error. */
static gboolean
read_list (const PsOption *option, const char *where, const char *text, gpointer *list, guint *n, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (*text != '\0' ? text : ":", ":", -1);
  gint64 *sizes = g_new (gint64, g_strv_length (parts));
  double *factors = (double *)(gpointer)sizes;

  G_STATIC_ASSERT (sizeof *sizes == sizeof *factors);
  g_free (*list);
  *list = sizes;
  for (*n = 0; parts[*n] != NULL; (*n)++)
    if (option->type == PS_OPTION_SIZES
            ? !ps_parse_size (where, parts[*n], &sizes[*n], error)
            : !ps_parse_number (where, parts[*n], option->low, option->high, &factors[*n], error))
      return FALSE;
  return TRUE;
}

static gboolean
read_value (const PsOption *option, const char *where, const char *text, gpointer value, guint *n, GError **error)
{
  switch (option->type)
    {
    case PS_OPTION_FLAG:
      return read_flag (where, text, value, error);
    case PS_OPTION_COUNT:
      return read_count (option, where, text, value, error);
    case PS_OPTION_INTEGER:
      return read_integer (option, where, text, value, error);
    case PS_OPTION_NUMBER:
      return ps_parse_number (where, text, option->low, option->high, value, error);
    case PS_OPTION_PERCENT:
      return ps_parse_percent (where, text, option->low, option->high, value, error);
    case PS_OPTION_TIME:
      return ps_parse_time (where, text, value, error);
    case PS_OPTION_SIZE:
      return ps_parse_size (where, text, value, error);
    case PS_OPTION_RATE:
      return ps_parse_rate (where, text, value, error);
    case PS_OPTION_NAME:
      return option->parse (where, text, value, error);
    case PS_OPTION_FACTORS:
    case PS_OPTION_SIZES:
      return read_list (option, where, text, value, n, error);
    case PS_OPTION_TEXTS:
    case PS_OPTION_FILES:
      add_text (text, value);
      return TRUE;
    case PS_OPTION_TEXT:
    case PS_OPTION_FILE:
    default:
      return read_text (option, where, text, value, error);
    }
}

/* "-p/--devices", "--eager"; in specs "costs.f". */
static char *
name_option (const PsOption *option)
{
  if (option->hidden)
    return g_strdup (option->name);
  return option->letter != 0 ? g_strdup_printf ("-%c/--%s", option->letter, option->name)
                             : g_strconcat ("--", option->name, NULL);
}

/* Gives the option the value of one that is not given. */
static void
reset (const PsOption *option, gpointer base)
{
  gpointer value = G_STRUCT_MEMBER_P (base, option->offset);

  switch (option->type)
    {
    case PS_OPTION_NUMBER:
    case PS_OPTION_PERCENT:
      *(double *)value = option->initial;
      break;
    case PS_OPTION_INTEGER:
    case PS_OPTION_TIME:
    case PS_OPTION_SIZE:
    case PS_OPTION_RATE:
      *(gint64 *)value = (gint64)option->initial;
      break;
    case PS_OPTION_TEXTS:
    case PS_OPTION_FILES:
      g_clear_pointer ((char ***)value, g_strfreev);
      break;
    case PS_OPTION_TEXT:
    case PS_OPTION_FILE:
    case PS_OPTION_FACTORS:
    case PS_OPTION_SIZES:
      g_clear_pointer ((gpointer *)value, g_free);
      break;
    default:
      *(guint *)value = (guint)option->initial;
    }
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, base, option->given) = 0;
}

void
ps_options_reset (const PsOption *rows, gpointer base)
{
  for (; rows->name != NULL; rows++)
    if (rows->type == PS_OPTION_ROWS)
      ps_options_reset (rows->rows, base_of (rows, base));
    else if (rows->type != PS_OPTION_ROWS_AT && !rows->hidden)
      reset (rows, base);
}

gboolean
ps_option_read (const PsOption *option, gpointer base, const char *text, GError **error)
{
  g_autofree char *where = name_option (option);
  guint n = 1;

  if (option->none != NULL && g_str_equal (text, option->none))
    {
      reset (option, base);
      return TRUE;
    }
  if (!read_value (option, where, text, G_STRUCT_MEMBER_P (base, option->offset), &n, error))
    return FALSE;
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, base, option->given) = n;
  return TRUE;
}

/* Command lines */

typedef struct
{
  const PsOption *rows;
  gpointer base;
} Line;

/* The row of an option as GOption calls it, "-p" or "--devices", and its base. */
static const PsOption *
find_typed (const PsOption *rows, const char *typed, gpointer *base)
{
  for (gpointer outer = *base; rows->name != NULL; rows++)
    {
      gboolean is_long = g_str_has_prefix (typed, "--");

      *base = rows->rows != NULL ? base_of (rows, outer) : outer;
      if (rows->rows != NULL)
        {
          const PsOption *found = find_typed (rows->rows, typed, base);

          if (found != NULL)
            return found;
        }
      else if (is_long || *typed == '\0' ? g_str_equal (rows->name, is_long ? typed + 2 : typed)
                                         : rows->letter == typed[1])
        return rows;
    }
  return NULL;
}

static gboolean
take (const char *typed, const char *text, gpointer data, GError **error)
{
  const Line *line = data;
  gpointer base = line->base;
  const PsOption *option = find_typed (line->rows, typed, &base);
  gboolean any = option->any != NULL && g_strcmp0 (text, option->any) == 0;

  if (option->any != NULL)
    G_STRUCT_MEMBER (gboolean, base, option->any_offset) = any;
  return any || ps_option_read (option, base, text, error);
}

static void
add_entries (const PsOption *rows, GArray *entries)
{
  for (; rows->name != NULL; rows++)
    {
      gboolean is_file = rows->type == PS_OPTION_FILE || rows->type == PS_OPTION_FILES;
      GOptionEntry entry
          = { rows->name,
              rows->letter,
              (rows->type == PS_OPTION_FLAG ? G_OPTION_FLAG_NO_ARG : 0) | (is_file ? G_OPTION_FLAG_FILENAME : 0),
              G_OPTION_ARG_CALLBACK,
              G_GNUC_EXTENSION (gpointer) take,
              rows->help,
              rows->argument };

      if (rows->rows != NULL)
        add_entries (rows->rows, entries);
      else if (!rows->hidden)
        g_array_append_val (entries, entry);
    }
}

void
ps_options_add (const PsOption *rows, gpointer base, GOptionContext *context)
{
  Line *line = g_new (Line, 1);
  GOptionGroup *group = g_option_group_new (NULL, NULL, NULL, line, g_free);
  g_autoptr (GArray) entries = g_array_new (TRUE, TRUE, sizeof (GOptionEntry));

  *line = (Line){ rows, base };
  add_entries (rows, entries);
  g_option_group_add_entries (group, (const GOptionEntry *)(gconstpointer)entries->data);
  g_option_context_set_main_group (context, group);
  ps_options_reset (rows, base);
}

/* Telling */

void
ps_option_copy (const PsOption *option, gconstpointer from, gpointer to)
{
  gsize size = option->type <= PS_OPTION_NAME      ? sizeof (guint)
               : option->type <= PS_OPTION_PERCENT ? sizeof (gint64)
                                                   : sizeof (gpointer);

  memcpy (G_STRUCT_MEMBER_P (to, option->offset), G_STRUCT_MEMBER_P (from, option->offset), size);
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, to, option->given) = G_STRUCT_MEMBER (guint, from, option->given);
}

gboolean
ps_option_is_initial (const PsOption *option, gconstpointer base)
{
  gconstpointer value = G_STRUCT_MEMBER_P (base, option->offset);

  if (option->given != 0)
    return G_STRUCT_MEMBER (guint, base, option->given) == 0;
  if (option->type <= PS_OPTION_NAME)
    return *(const guint *)value == (guint)option->initial;
  if (option->type <= PS_OPTION_RATE)
    return *(const gint64 *)value == (gint64)option->initial;
  return option->type <= PS_OPTION_PERCENT ? *(const double *)value == option->initial
                                           : *(const gconstpointer *)value == NULL;
}

static PsValue
smallest (const gint64 *sizes, guint n)
{
  PsValue least = { .type = PS_VALUE_NONE };

  for (guint i = 0; i < n; i++)
    if (i == 0 || sizes[i] < least.integer)
      least = (PsValue){ .type = PS_VALUE_INTEGER, .integer = sizes[i] };
  return least;
}

static PsValue
text_value (const char *text)
{
  return (PsValue){ .type = text != NULL ? PS_VALUE_TEXT : PS_VALUE_NONE, .text = text };
}

PsValue
ps_option_value (const PsOption *option, gconstpointer base)
{
  gconstpointer value = G_STRUCT_MEMBER_P (base, option->offset);

  if (option->type == PS_OPTION_NAME)
    return text_value (option->name_of (*(const guint *)value));
  if (option->type < PS_OPTION_NAME)
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = *(const guint *)value };
  if (option->type <= PS_OPTION_RATE)
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = *(const gint64 *)value };
  if (option->type <= PS_OPTION_PERCENT)
    return (PsValue){ .type = PS_VALUE_REAL, .real = *(const double *)value };
  if (option->type == PS_OPTION_SIZES)
    return smallest (*(const gint64 *const *)value, G_STRUCT_MEMBER (guint, base, option->given));
  return text_value (option->type <= PS_OPTION_FILE ? *(const char *const *)value : NULL);
}

/* A text is quoted where a shell would see more than one word in it. */
static void
append_text (const char *text, GString *line)
{
  g_autofree char *quoted = NULL;

  for (const char *c = text; *c != '\0' && quoted == NULL; c++)
    if (!g_ascii_isalnum (*c) && strchr ("-_./", *c) == NULL)
      quoted = g_shell_quote (text);
  g_string_append (line, quoted != NULL ? quoted : text);
}

static void
append_value (const PsOption *option, PsValue value, GString *line)
{
  static const char *const units[PS_OPTION_ROWS_AT + 1]
      = { [PS_OPTION_TIME] = "ns", [PS_OPTION_SIZE] = "B", [PS_OPTION_SIZES] = "B", [PS_OPTION_RATE] = "B/s" };
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  if (value.type == PS_VALUE_TEXT)
    append_text (value.text, line);
  else if (value.type == PS_VALUE_REAL)
    g_string_append (line, g_ascii_formatd (number, sizeof number, "%.15g",
                                            option->type == PS_OPTION_PERCENT ? 100 * value.real : value.real));
  else
    g_string_append_printf (line, "%" G_GINT64_FORMAT "%s", value.integer,
                            units[option->type] != NULL ? units[option->type] : "");
}

static void
append_list (const PsOption *option, gconstpointer base, GString *line)
{
  gconstpointer list = G_STRUCT_MEMBER (gconstpointer, base, option->offset);

  for (guint i = 0; i < G_STRUCT_MEMBER (guint, base, option->given); i++)
    {
      if (i > 0)
        g_string_append_c (line, ':');
      append_value (option,
                    option->type == PS_OPTION_SIZES
                        ? (PsValue){ .type = PS_VALUE_INTEGER, .integer = ((const gint64 *)list)[i] }
                        : (PsValue){ .type = PS_VALUE_REAL, .real = ((const double *)list)[i] },
                    line);
    }
}

char *
ps_option_typed (const PsOption *option, gconstpointer base)
{
  GString *line = g_string_new (NULL);

  if (option->letter != 0)
    g_string_printf (line, "-%c", option->letter);
  else
    g_string_printf (line, "--%s", option->name);
  if (option->type != PS_OPTION_FLAG)
    g_string_append_c (line, ' ');
  if (option->type == PS_OPTION_FACTORS || option->type == PS_OPTION_SIZES)
    append_list (option, base, line);
  else if (option->type != PS_OPTION_FLAG)
    append_value (option, ps_option_value (option, base), line);
  return g_string_free (line, FALSE);
}
