/* option.c - reads and writes the values of options by their rows. Types of one kind of member stand together in
 * PsOptionType: up to NAME it is a guint, up to RATE a gint64, up to PERCENT a double, then a pointer. */
#include <pipesim/option.h>

#include <string.h>

static gpointer base_of (const PsOption *include, gpointer base)
{
  gpointer member = G_STRUCT_MEMBER_P (base, include->offset);

  return include->type == PS_OPTION_ROWS_AT ? *(gpointer *)member : member;
}

const PsOption *ps_option_find (const PsOption *rows, const char *name)
{
  while (rows->name != NULL && (rows->rows != NULL || !g_str_equal (rows->name, name)))
    rows++;
  return rows->name != NULL ? rows : NULL;
}

/* Gives the option the value of one that is not given. */
static void reset (const PsOption *option, gpointer base)
{
  gpointer value = G_STRUCT_MEMBER_P (base, option->offset);

  if (option->type <= PS_OPTION_NAME)
    *(guint *)value = (guint)option->initial;
  else if (option->type <= PS_OPTION_RATE)
    *(gint64 *)value = (gint64)option->initial;
  else if (option->type <= PS_OPTION_PERCENT)
    *(double *)value = option->initial;
  else if (option->type >= PS_OPTION_TEXTS && option->type <= PS_OPTION_LIST)
    g_clear_pointer ((char ***)value, g_strfreev);
  else
    g_clear_pointer ((gpointer *)value, g_free);
  if (option->each != 0)
    g_clear_pointer (&G_STRUCT_MEMBER (gpointer, base, option->each), g_free);
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, base, option->given) = 0;
  if (option->prefix != NULL)
    G_STRUCT_MEMBER (gboolean, base, option->prefix_offset) = FALSE;
}

void ps_options_reset (const PsOption *rows, gpointer base)
{
  for (; rows->name != NULL; rows++)
    if (rows->type == PS_OPTION_ROWS)
      ps_options_reset (rows->rows, base_of (rows, base));
    else if (rows->type != PS_OPTION_ROWS_AT && !rows->hidden)
      reset (rows, base);
}

/* Reading */

static gboolean read_flag (const char *where, const char *text, gboolean *flag, GError **error)
{
  *flag = text == NULL || g_str_equal (text, "yes");
  if (*flag || g_str_equal (text, "no"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is neither yes nor no", where, text);
}

static gboolean read_count (const char *where, const char *text, gint64 low, gint64 high, guint *count, GError **error)
{
  gint64 value;

  if (!ps_parse_integer (where, text, low, high, &value, error))
    return FALSE;
  *count = (guint)value;
  return TRUE;
}

static gboolean read_text (const PsOption *option, const char *where, const char *text, char **value, GError **error)
{
  char *before = *value;
  guint index;

  if (option->single && (before != NULL || strchr (text, ',') != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s%s%s' are several; this command takes one", where,
                      before != NULL ? before : "", before != NULL ? "," : "", text);
  if (option->parse != NULL && !option->parse (where, text, &index, error))
    return FALSE;
  *value = option->joins && before != NULL ? g_strconcat (before, ":", text, NULL) : g_strdup (text);
  g_free (before);
  return TRUE;
}

static gboolean add_text (const char *text, char ***texts)
{
  guint n = *texts != NULL ? g_strv_length (*texts) : 0;

  *texts = g_renew (char *, *texts, n + 2);
  (*texts)[n] = g_strdup (text);
  (*texts)[n + 1] = NULL;
  return TRUE;
}

/* Blanks around a part are none of it. */
static gboolean add_parts (const char *text, char ***texts)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    add_text (g_strstrip (parts[i]), texts);
  return TRUE;
}

static const char *separator_of (const PsOption *option)
{
  return option->type == PS_OPTION_COUNTS ? "," : ":";
}

static gboolean read_part (const PsOption *option, const char *where, const char *text, gpointer list, guint i,
                           GError **error)
{
  if (option->type == PS_OPTION_SIZES)
    return ps_parse_size (where, text, (gint64 *)list + i, error);
  if (option->type == PS_OPTION_NAME)
    return option->parse (where, text, (guint *)list + i, error);
  if (option->type == PS_OPTION_COUNT || option->type == PS_OPTION_COUNTS)
    return read_count (where, text, (gint64)option->low,
                       option->type == PS_OPTION_COUNT ? G_MAXINT32 : (gint64)option->high, (guint *)list + i, error);
  return ps_parse_number (where, text, option->low, option->high, (double *)list + i, error);
}

/* The part of text after the option's prefix; NULL: it has none. */
static const char *skip_prefix (const PsOption *option, const char *text)
{
  gsize n
      = option->prefix != NULL && text != NULL && g_str_has_prefix (text, option->prefix) ? strlen (option->prefix) : 0;

  return n > 0 && text[n] == ':' ? text + n + 1 : NULL;
}

/* The values of "1GiB:2GiB", "none:full:layers=2": what begins as "layers=" belongs to the value before it. g_strsplit
 * makes no part of "": the parser of one empty part reports the error. */
static char **split_list (const PsOption *option, const char *text)
{
  const char *separator = separator_of (option);
  char **parts = g_strsplit (*text != '\0' ? text : separator, separator, -1);
  guint n = 0;

  for (guint i = 0; parts[i] != NULL; i++)
    if (i > 0 && option->type == PS_OPTION_NAME && strchr (parts[i], '=') != NULL) {
      char *whole = g_strconcat (parts[n - 1], separator, parts[i], NULL);

      g_free (parts[n - 1]);
      g_free (parts[i]);
      parts[n - 1] = whole;
    } else
      parts[n++] = parts[i];
  parts[n] = NULL;
  return parts;
}

static gboolean read_list (const PsOption *option, const char *where, const char *text, gpointer *list, guint *n,
                           GError **error)
{
  g_auto (GStrv) parts = split_list (option, text);

  g_free (*list);
  *list = g_new (gint64, g_strv_length (parts)); /* as wide as a double, and wider than a count */
  for (*n = 0; parts[*n] != NULL; (*n)++)
    if (!read_part (option, where, parts[*n], *list, *n, error))
      return FALSE;
  return TRUE;
}

static gboolean read_value (const PsOption *option, const char *where, const char *text, gpointer value, guint *n,
                            GError **error)
{
  gint64 low = (gint64)option->low, high = option->high > 0 ? (gint64)option->high : G_MAXINT64;

  switch (option->type) {
  case PS_OPTION_FLAG:
    return read_flag (where, text, value, error);
  case PS_OPTION_COUNT:
    return read_count (where, text, low, high, value, error);
  case PS_OPTION_NAME:
    return option->parse (where, text, value, error);
  case PS_OPTION_INTEGER:
    return ps_parse_integer (where, text, low, high, value, error);
  case PS_OPTION_TIME:
    return ps_parse_time (where, text, value, error);
  case PS_OPTION_SIZE:
    return ps_parse_size (where, text, value, error);
  case PS_OPTION_RATE:
    return ps_parse_rate (where, text, value, error);
  case PS_OPTION_NUMBER:
    return ps_parse_number (where, text, option->low, option->high, value, error);
  case PS_OPTION_PERCENT:
    return ps_parse_percent (where, text, option->low, option->high, value, error);
  case PS_OPTION_TEXTS:
  case PS_OPTION_FILES:
    return add_text (text, value);
  case PS_OPTION_LIST:
    return add_parts (text, value);
  case PS_OPTION_FACTORS:
  case PS_OPTION_SIZES:
  case PS_OPTION_COUNTS:
    return read_list (option, where, text, value, n, error);
  default:
    return read_text (option, where, text, value, error);
  }
}

gboolean ps_option_read (const PsOption *option, gpointer base, const char *text, GError **error)
{
  const char letter[] = { '-', option->letter, '/', '\0' };
  g_autofree char *where
      = g_strconcat (option->letter != 0 ? letter : "", option->hidden ? "" : "--", option->name, NULL);
  const char *after = skip_prefix (option, text);
  g_auto (GStrv) parts = option->each != 0 && text != NULL && after == NULL ? split_list (option, text) : NULL;
  gboolean lists = parts != NULL && g_strv_length (parts) > 1;
  guint n = option->each == 0;

  if (option->none != NULL && g_str_equal (text, option->none)) {
    reset (option, base);
    return TRUE;
  }
  if (option->each != 0)
    reset (option, base);
  if (lists ? !read_list (option, where, text, G_STRUCT_MEMBER_P (base, option->each), &n, error)
            : !read_value (option, where, after != NULL ? after : text, G_STRUCT_MEMBER_P (base, option->offset), &n,
                           error))
    return FALSE;
  if (lists && option->type == PS_OPTION_COUNT)
    G_STRUCT_MEMBER (guint, base, option->offset) = n;
  if (option->prefix != NULL)
    G_STRUCT_MEMBER (gboolean, base, option->prefix_offset) = after != NULL;
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, base, option->given) = n;
  return TRUE;
}

/* Command lines */

typedef struct {
  const PsOption *option;
  gpointer base;
} Binding;

/* GOption calls options "-p" or "--devices", and arguments that belong to none "". */
static gboolean is_called (const PsOption *option, const char *typed)
{
  const char *name = typed[0] == '-' ? typed + 2 : typed;

  if (typed[0] == '-' && typed[1] != '-')
    return option->letter == typed[1];
  return g_str_equal (option->name, name);
}

static gboolean take (const char *typed, const char *text, gpointer data, GError **error)
{
  const Binding *binding = (const Binding *)(gconstpointer)((GArray *)data)->data;
  const PsOption *option;
  gboolean any;

  while (!is_called (binding->option, typed))
    binding++;
  option = binding->option;
  any = option->any != NULL && g_strcmp0 (text, option->any) == 0;
  if (option->any != NULL)
    G_STRUCT_MEMBER (gboolean, binding->base, option->any_offset) = any;
  return any || ps_option_read (option, binding->base, text, error);
}

static gboolean is_bound (const PsOption *option, const GArray *bindings)
{
  for (guint i = 0; i < bindings->len; i++)
    if (g_str_equal (g_array_index (bindings, Binding, i).option->name, option->name))
      return TRUE;
  return FALSE;
}

/* Of rows with the same name the first counts: a command's own row goes before that of a table which it includes. */
static void add_entries (const PsOption *rows, gpointer base, guint16 only, GArray *entries, GArray *bindings)
{
  for (; rows->name != NULL; rows++) {
    gboolean is_file = rows->type == PS_OPTION_FILE || rows->type == PS_OPTION_FILES || rows->type == PS_OPTION_LIST;
    GOptionEntry entry = { .long_name = rows->name,
                           .short_name = rows->letter,
                           .arg = G_OPTION_ARG_CALLBACK,
                           .arg_data = G_GNUC_EXTENSION (gpointer) take };
    Binding binding = { .option = rows, .base = base };

    if (rows->rows != NULL)
      add_entries (rows->rows, base_of (rows, base), rows->only, entries, bindings);
    if (rows->rows != NULL || rows->hidden || (only != 0 && !(rows->flags & only)) || is_bound (rows, bindings))
      continue;
    entry.flags = is_file ? G_OPTION_FLAG_FILENAME : rows->type == PS_OPTION_FLAG ? G_OPTION_FLAG_NO_ARG : 0;
    g_array_append_val (entries, entry);
    g_array_append_val (bindings, binding);
  }
}

void ps_options_add (const PsOption *rows, gpointer base, GOptionContext *context)
{
  GArray *bindings = g_array_new (FALSE, FALSE, sizeof (Binding));
  GOptionGroup *group = g_option_group_new (NULL, NULL, NULL, bindings, (GDestroyNotify)g_array_unref);
  g_autoptr (GArray) entries = g_array_new (TRUE, TRUE, sizeof (GOptionEntry));

  add_entries (rows, base, 0, entries, bindings);
  g_option_group_add_entries (group, (const GOptionEntry *)(gconstpointer)entries->data);
  g_option_context_set_main_group (context, group);
  ps_options_reset (rows, base);
}

/* Writing */

void ps_option_copy (const PsOption *option, gconstpointer from, gpointer to)
{
  gsize size = option->type <= PS_OPTION_NAME      ? sizeof (guint)
               : option->type <= PS_OPTION_PERCENT ? sizeof (gint64)
                                                   : sizeof (gpointer);

  memcpy (G_STRUCT_MEMBER_P (to, option->offset), G_STRUCT_MEMBER_P (from, option->offset), size);
  if (option->each != 0)
    G_STRUCT_MEMBER (gpointer, to, option->each) = G_STRUCT_MEMBER (gpointer, from, option->each);
  if (option->given != 0)
    G_STRUCT_MEMBER (guint, to, option->given) = G_STRUCT_MEMBER (guint, from, option->given);
  if (option->prefix != NULL)
    G_STRUCT_MEMBER (gboolean, to, option->prefix_offset) = G_STRUCT_MEMBER (gboolean, from, option->prefix_offset);
}

/* How many values the option's list holds. */
static guint count_listed (const PsOption *option, gconstpointer base)
{
  return option->type >= PS_OPTION_FACTORS || option->each != 0 ? G_STRUCT_MEMBER (guint, base, option->given) : 0;
}

gboolean ps_option_is_initial (const PsOption *option, gconstpointer base)
{
  gconstpointer value = G_STRUCT_MEMBER_P (base, option->offset);

  if (option->given != 0 && (option->each == 0 || count_listed (option, base) > 0))
    return G_STRUCT_MEMBER (guint, base, option->given) == 0;
  if (option->type <= PS_OPTION_NAME)
    return *(const guint *)value == (guint)option->initial;
  if (option->type <= PS_OPTION_RATE)
    return *(const gint64 *)value == (gint64)option->initial;
  return option->type <= PS_OPTION_PERCENT ? *(const double *)value == option->initial
                                           : *(const gconstpointer *)value == NULL;
}

static PsValue element (const PsOption *option, gconstpointer base, guint i)
{
  gconstpointer list = G_STRUCT_MEMBER (gconstpointer, base, option->each != 0 ? option->each : option->offset);

  switch (option->type) {
  case PS_OPTION_NAME:
    return (PsValue){ .type = PS_VALUE_TEXT, .text = option->name_of (((const guint *)list)[i]) };
  case PS_OPTION_SIZES:
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ((const gint64 *)list)[i] };
  case PS_OPTION_COUNT:
  case PS_OPTION_COUNTS:
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ((const guint *)list)[i] };
  default:
    return (PsValue){ .type = PS_VALUE_REAL, .real = ((const double *)list)[i] };
  }
}

static PsValue smallest (const PsOption *option, gconstpointer base)
{
  PsValue least = { .type = PS_VALUE_NONE };

  for (guint i = 0; i < G_STRUCT_MEMBER (guint, base, option->given); i++)
    if (i == 0 || element (option, base, i).integer < least.integer)
      least = element (option, base, i);
  return least;
}

/* Without an exponent, which ps_parse_number does not take. */
static void append_real (double real, GString *line)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (line, g_ascii_formatd (number, sizeof number, "%.12f", real));
  while (line->str[line->len - 1] == '0')
    g_string_truncate (line, line->len - 1);
  if (line->str[line->len - 1] == '.')
    g_string_truncate (line, line->len - 1);
}

/* Texts are quoted where a shell would see more than one word in them. */
static void append_value (const PsOption *option, PsValue value, GString *line)
{
  static const char *const units[PS_OPTION_ROWS_AT]
      = { [PS_OPTION_TIME] = "ns", [PS_OPTION_SIZE] = "B", [PS_OPTION_SIZES] = "B", [PS_OPTION_RATE] = "B/s" };
  gboolean plain = value.type != PS_VALUE_TEXT || option->type <= PS_OPTION_NAME
                   || value.text[strspn (value.text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_./")] == '\0';
  g_autofree char *quoted = plain ? NULL : g_shell_quote (value.text);

  if (value.type == PS_VALUE_TEXT)
    g_string_append (line, plain ? value.text : quoted);
  else if (value.type == PS_VALUE_INTEGER)
    g_string_append_printf (line, "%" G_GINT64_FORMAT "%s", value.integer,
                            units[option->type] != NULL ? units[option->type] : "");
  else
    append_real (option->type == PS_OPTION_PERCENT ? 100 * value.real : value.real, line);
}

/* "full:none:none". */
static void append_list (const PsOption *option, gconstpointer base, GString *line)
{
  for (guint i = 0; i < count_listed (option, base); i++)
    append_value (option, element (option, base, i), i > 0 ? g_string_append (line, separator_of (option)) : line);
}

PsValue ps_option_value (const PsOption *option, gconstpointer base)
{
  gconstpointer value = G_STRUCT_MEMBER_P (base, option->offset);
  const char *text = NULL;

  if (option->each != 0 && count_listed (option, base) > 0) {
    g_autoptr (GString) list = g_string_new (NULL);

    append_list (option, base, list);
    return (PsValue){ .type = PS_VALUE_TEXT, .text = g_intern_string (list->str) };
  }
  if (option->prefix != NULL && G_STRUCT_MEMBER (gboolean, base, option->prefix_offset)) {
    g_autofree char *prefixed = g_strdup_printf ("%s:%u", option->prefix, *(const guint *)value);

    return (PsValue){ .type = PS_VALUE_TEXT, .text = g_intern_string (prefixed) };
  }
  if (option->type < PS_OPTION_NAME)
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = *(const guint *)value };
  if (option->type > PS_OPTION_NAME && option->type <= PS_OPTION_RATE)
    return (PsValue){ .type = PS_VALUE_INTEGER, .integer = *(const gint64 *)value };
  if (option->type == PS_OPTION_NUMBER || option->type == PS_OPTION_PERCENT)
    return (PsValue){ .type = PS_VALUE_REAL, .real = *(const double *)value };
  if (option->type == PS_OPTION_SIZES)
    return smallest (option, base);
  if (option->type == PS_OPTION_NAME)
    text = option->name_of (*(const guint *)value);
  else if (option->type <= PS_OPTION_FILE)
    text = *(const char *const *)value;
  return (PsValue){ .type = text != NULL ? PS_VALUE_TEXT : PS_VALUE_NONE, .text = text };
}

char *ps_option_typed (const PsOption *option, gconstpointer base)
{
  GString *line = g_string_new (option->letter != 0 ? "-" : "--");

  if (option->letter != 0)
    g_string_append_c (line, option->letter);
  else
    g_string_append (line, option->name);
  if (option->type == PS_OPTION_FLAG)
    return g_string_free (line, FALSE);
  g_string_append_c (line, ' ');
  if (count_listed (option, base) > 0)
    append_list (option, base, line);
  else
    append_value (option, ps_option_value (option, base), line);
  return g_string_free (line, FALSE);
}
