/* base.c - errors, origins, and how times and sizes are read and printed. */
#include <pipesim/base.h>

#include "names.h"
#include "progress.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Without the cache of G_DEFINE_QUARK, which threads that fail at the same time write together. */
GQuark ps_error_quark (void)
{
  return g_quark_from_static_string ("ps-error-quark");
}

gboolean ps_refuse (GError **error, PsError code, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_propagate_error (error, g_error_new_valist (PS_ERROR, code, format, arguments));
  va_end (arguments);
  return FALSE;
}

gpointer ps_refuse_null (GError **error, PsError code, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_propagate_error (error, g_error_new_valist (PS_ERROR, code, format, arguments));
  va_end (arguments);
  return NULL;
}

int ps_error_exit_code (const GError *error)
{
  return error->domain == G_OPTION_ERROR || error->domain == G_CONVERT_ERROR
                 || g_error_matches (error, PS_ERROR, PS_ERROR_USAGE)
             ? 2
             : 1;
}

static const char *find_field (const GLogField *fields, gsize n_fields, const char *key)
{
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, key) && fields[i].value != NULL)
      return fields[i].value;
  return "";
}

/* Memory may be out: stdio's buffer of stderr needs none. */
static GLogWriterOutput write_message (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer data)
{
  const char *message = find_field (fields, n_fields, "MESSAGE"), *program = g_get_prgname ();
  const char *failed = strstr (message, "failed to allocate");

  if (!(level & G_LOG_LEVEL_ERROR) || !g_str_equal (find_field (fields, n_fields, "GLIB_DOMAIN"), "GLib"))
    return g_log_writer_default (level, fields, n_fields, data);
  fprintf (stderr, "%s: %s\n", program != NULL ? program : "pipesim", failed != NULL ? failed : message);
  _exit (1);
}

static _Thread_local GString *captured_output, *captured_errors;

void ps_capture (GString *output, GString *errors)
{
  captured_output = output;
  captured_errors = errors;
  ps_progress_allow (errors == NULL);
}

gboolean ps_write_stream (FILE *stream, const char *text, gsize n)
{
  GString *captured = stream == stdout ? captured_output : captured_errors;

  if (captured != NULL) {
    g_string_append_len (captured, text, (gssize)n);
    return TRUE;
  }
  ps_progress_end ();
  if (fwrite (text, 1, n, stream) != n || fflush (stream) != 0) {
    clearerr (stream);
    return FALSE;
  }
  return TRUE;
}

/* In the locale's encoding, as g_printerr's own handler does it. */
static void print_error (const char *text)
{
  g_autofree char *page = ps_format_page (text, FALSE), *converted = NULL;
  const char *charset;

  if (captured_errors == NULL && !g_get_console_charset (&charset))
    converted = g_convert_with_fallback (page, -1, charset, "UTF-8", "?", NULL, NULL, NULL);
  text = converted != NULL ? converted : page;
  ps_write_stream (stderr, text, strlen (text));
}

void ps_log_to_stderr (void)
{
  g_set_printerr_handler (print_error);
  ps_progress_allow (TRUE);
  g_log_writer_default_set_use_stderr (TRUE);
  g_log_set_writer_func (write_message, NULL, NULL);
}

/* All three at once, because glibc adapts none of them once one is set. */
void ps_keep_memory (void)
{
#ifdef __GLIBC__
  mallopt (M_TOP_PAD, 4 << 20);
  mallopt (M_TRIM_THRESHOLD, 64 << 20);
  mallopt (M_MMAP_THRESHOLD, 32 << 20);
#endif
}

PS_DEFINE_NAMES (
    PsOrigin, ps_origin, [PS_ORIGIN_GIVEN] = "given", [PS_ORIGIN_MEASURED] = "measured",
    [PS_ORIGIN_INTERPOLATED] = "interpolated", [PS_ORIGIN_MODELLED] = "modelled", [PS_ORIGIN_SIMULATED] = "simulated")
PS_DEFINE_NAMES (PsOpKind, ps_op_kind, "F", "B", "W", "BW", "R", "O")

#define LONG_LIST 100   /* letters of a list of names that stands after the one that is meant */
#define MAX_MISTYPED 40 /* bytes of a name that others are compared with */

typedef struct {
  const char *suffix;
  gint64 factor;
} Unit;

static const Unit time_units[] = {
  { "ns", 1 },         { "us", 1000 },        { "\u00b5s", 1000 }, /* micro sign, and the Greek letter */
  { "\u03bcs", 1000 }, { "ms", 1000 * 1000 }, { "s", 1000 * 1000 * 1000 }, { "min", G_GINT64_CONSTANT (60000000000) },
};

#define BYTE_UNITS(unit)                                                                                               \
  { "B" unit, 1 }, { "kB" unit, 1000 }, { "KB" unit, 1000 }, { "MB" unit, 1000 * 1000 },                               \
      { "GB" unit, 1000 * 1000 * 1000 }, { "TB" unit, (gint64)1000 * 1000 * 1000 * 1000 }, { "KiB" unit, 1 << 10 },    \
      { "MiB" unit, 1 << 20 }, { "GiB" unit, 1 << 30 },                                                                \
  {                                                                                                                    \
    "TiB" unit, (gint64)1 << 40                                                                                        \
  }

static const Unit token_units[] = {
  { "", 1 },
  { "K", 1000 },
  { "M", 1000 * 1000 },
  { "B", 1000 * 1000 * 1000 },
  { "T", (gint64)1000 * 1000 * 1000 * 1000 },
};

static const Unit size_units[] = {
  BYTE_UNITS (""),
  { "K", 1000 },
  { "M", 1000 * 1000 },
  { "G", 1000 * 1000 * 1000 },
  { "T", (gint64)1000 * 1000 * 1000 * 1000 },
};

/* "Gb/s" and "gb/s" may be bits or bytes: they are refused. */
static const Unit rate_units[] = {
  BYTE_UNITS ("/s"),
  { "Mbit/s", 1000 * 1000 / 8 },
  { "Gbit/s", 1000 * 1000 * 1000 / 8 },
  { "Tbit/s", (gint64)1000 * 1000 * 1000 * 1000 / 8 },
};

/* Digits with at most one point before a unit: no sign, exponent, hexadecimal, infinity or blank. */
static gsize decimal_length (const char *text)
{
  gsize length = strspn (text, "0123456789.");
  const char *point = memchr (text, '.', length);
  gboolean digits = length > (point != NULL ? 1U : 0U);
  gboolean one_point = point == NULL || memchr (point + 1, '.', length - (gsize)(point + 1 - text)) == NULL;

  return digits && one_point ? length : 0;
}

static gboolean parse_quantity (const char *text, const Unit *units, guint n_units, gboolean any_case, gint64 max,
                                gint64 *value)
{
  int (*compare) (const char *, const char *) = any_case ? g_ascii_strcasecmp : strcmp;
  gsize length = decimal_length (text);

  if (length == 0)
    return FALSE;
  if (g_str_equal (text, "0")) {
    *value = 0;
    return TRUE;
  }
  double number = g_ascii_strtod (text, NULL);
  for (guint i = 0; i < n_units; i++)
    if (compare (text + length, units[i].suffix) == 0) {
      double scaled = number * (double)units[i].factor;

      if (!(scaled <= (double)max))
        return FALSE;
      *value = (gint64)llrint (scaled);
      return TRUE;
    }
  return FALSE;
}

gboolean ps_parse_time (const char *where, const char *text, gint64 *ns, GError **error)
{
  if (parse_quantity (text, time_units, G_N_ELEMENTS (time_units), FALSE, PS_MAX_TIME_NS, ns))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "%s: '%s' is no time; write a number and ns, us, ms, s or min, from 0 to 1000000s", where, text);
}

/* A number alone may be of bytes or of GB: the error shows it with a unit. */
static gboolean refuse_bytes (const char *where, const char *text, const char *per_second, const char *what,
                              GError **error)
{
  char *end;
  double number = g_ascii_strtod (text, &end);

  if (end == text || *end != '\0' || !(number >= 1 && number <= (double)PS_MAX_RATE))
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no %s", where, text, what);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' has no unit; %.12gGB%s would be right", where, text,
                    number < 1e6 ? number : number / 1e9, per_second);
}

gboolean ps_parse_size (const char *where, const char *text, gint64 *bytes, GError **error)
{
  return parse_quantity (text, size_units, G_N_ELEMENTS (size_units), TRUE, PS_MAX_SIZE_BYTES, bytes)
         || refuse_bytes (where, text, "",
                          "size; write a number and B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, from 0 to 1024TiB", error);
}

gboolean ps_parse_rate (const char *where, const char *text, gint64 *bytes_per_second, GError **error)
{
  return (parse_quantity (text, rate_units, G_N_ELEMENTS (rate_units), FALSE, PS_MAX_RATE, bytes_per_second)
          && *bytes_per_second > 0)
         || refuse_bytes (where, text, "/s",
                          "rate; write a number and B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, Mbit/s, "
                          "Gbit/s or Tbit/s, from 1B/s to 1000000TB/s",
                          error);
}

gboolean ps_parse_tokens (const char *where, const char *text, gint64 *tokens, GError **error)
{
  if (parse_quantity (text, token_units, G_N_ELEMENTS (token_units), FALSE, PS_MAX_TOKENS, tokens) && *tokens > 0)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no number of tokens; 15T, 300B or 20M would be right", where,
                    text);
}

gboolean ps_parse_integer (const char *where, const char *text, gint64 low, gint64 high, gint64 *value, GError **error)
{
  if (g_ascii_string_to_signed (text, 10, low, high, value, NULL))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                    where, text, low, high);
}

/* The number at the start of text, with at most the text `after` following it; NAN: none. */
static double parse_decimal (const char *text, const char *after)
{
  gsize length = decimal_length (text);
  gboolean whole = length > 0 && (text[length] == '\0' || g_str_equal (text + length, after));

  return whole ? g_ascii_strtod (text, NULL) : NAN;
}

gboolean ps_parse_number (const char *where, const char *text, double low, double high, double *value, GError **error)
{
  *value = parse_decimal (text, "");
  if (*value >= low && *value <= high)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not a number from %g to %g", where, text, low, high);
}

gboolean ps_parse_percent (const char *where, const char *text, double low, double high, double *ratio, GError **error)
{
  double percent = parse_decimal (text, "%");

  *ratio = percent / 100;
  if (percent >= low && percent <= high)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not a percentage from %g to %g", where, text, low, high);
}

/* The letters to drop, insert, replace or swap with their neighbour that make b of a. */
static guint name_distance (const char *a, const char *b)
{
  gsize n_a = strlen (a), n_b = strlen (b), width = n_b + 1;
  g_autofree guint *d = g_new0 (guint, (n_a + 1) * width);

  for (gsize i = 0; i <= n_a; i++)
    for (gsize j = 0; j <= n_b; j++) {
      guint *here = &d[i * width + j];

      if (i == 0 || j == 0) {
        *here = (guint)(i + j);
        continue;
      }
      *here = MIN (MIN (here[-1], d[(i - 1) * width + j]) + 1, d[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        *here = MIN (*here, d[(i - 2) * width + j - 2] + 1);
    }
  return d[n_a * width + n_b];
}

char *ps_did_you_mean (const char *text, const char *const *names, guint n, const char *prefix)
{
  guint least = (guint)MIN (strlen (text), MAX_MISTYPED) / 3 + 1;
  const char *closest = NULL;

  for (guint i = 0; i < n && strlen (text) <= MAX_MISTYPED; i++) {
    gboolean begins = strlen (text) >= 3 && g_str_has_prefix (names[i], text);
    guint distance = begins ? 0 : name_distance (text, names[i]);
    gboolean shorter = begins && least == 0 && strlen (names[i]) < strlen (closest);

    /* Few mistype the first letter: "import" is no "report". */
    distance += distance > 1 && names[i][0] != *text;
    if (distance >= least && !shorter)
      continue;
    least = distance;
    closest = names[i];
  }
  return closest != NULL ? g_strdup_printf ("; did you mean %s%s?", prefix, closest) : g_strdup ("");
}

gboolean ps_refuse_name (GError **error, const char *problem, const char *name, const char *const *names, guint n)
{
  g_autofree char *meant = ps_did_you_mean (name, names, n, "");
  g_autoptr (GString) all = g_string_new (NULL);
  const char *list = strrchr (problem, ';');

  for (guint i = 0; i < n; i++)
    g_string_append_printf (all, "%s%s", i ? ", " : "", names[i]);
  if (all->len > LONG_LIST && *meant && list != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "%.*s%s (%s %s)", (int)(list - problem), problem, meant, list + 2,
                      all->str);
  return ps_refuse (error, PS_ERROR_USAGE, "%s %s%s", problem, all->str, meant);
}

gboolean ps_parse_name (const char *where, const char *text, const char *const *names, guint n, guint *index,
                        GError **error)
{
  guint n_values = 0;

  for (guint i = 0; i < n; i++) {
    gsize length = strcspn (names[i], "=");

    n_values += names[i][length] == '\0';
    if (strncmp (text, names[i], length) != 0 || text[length] != '\0')
      continue;
    if (names[i][length] == '=')
      return ps_parse_name (where, names[i] + length + 1, names, n, index, error);
    *index = i;
    return TRUE;
  }
  g_autofree char *problem = g_strdup_printf ("%s: '%s' is not one of", where, text);
  return ps_refuse_name (error, problem, text, names, n_values);
}

/* Four significant digits without trailing zeros. */
static char *format_scaled (double value, const char *unit)
{
  char number[32];

  g_snprintf (number, sizeof number, "%.*f",
              fabs (value) >= 1000  ? 0
              : fabs (value) >= 100 ? 1
              : fabs (value) >= 10  ? 2
                                    : 3,
              value);
  if (strchr (number, '.') != NULL) {
    gsize end = strlen (number);

    while (number[end - 1] == '0')
      end--;
    number[number[end - 1] == '.' ? end - 1 : end] = '\0';
  }
  return g_strdup_printf ("%s %s", number, unit);
}

char *ps_format_time (gint64 ns)
{
  double magnitude = fabs ((double)ns);

  if (magnitude < 1e3)
    return format_scaled ((double)ns, "ns");
  if (magnitude < 1e6)
    return format_scaled ((double)ns / 1e3, "us");
  if (magnitude < 1e9)
    return format_scaled ((double)ns / 1e6, "ms");
  return format_scaled ((double)ns / 1e9, "s");
}

char *ps_format_size (gint64 bytes)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
  double value = (double)bytes;
  guint unit = 0;

  while (fabs (value) >= 1024 && unit + 1 < G_N_ELEMENTS (units)) {
    value /= 1024;
    unit++;
  }
  return format_scaled (value, units[unit]);
}

char *ps_format_rate (double bytes_per_second)
{
  static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s" };
  guint unit = 0;

  for (; fabs (bytes_per_second) >= 999.95 && unit + 1 < G_N_ELEMENTS (units); unit++)
    bytes_per_second /= 1000;
  return format_scaled (bytes_per_second, units[unit]);
}

char *ps_format_number (double value)
{
  static const char *const prefixes[] = { "k", "M", "G", "T", "P", "E" };
  guint i = 0;

  if (!(fabs (value) >= 1e4) || !isfinite (value)) {
    char *exact = g_strdup_printf ("%.6g", value);

    if (g_ascii_strtod (exact, NULL) == value || !isfinite (value))
      return exact;
    g_free (exact);
    return g_strdup_printf ("%.4g", value);
  }
  for (value /= 1e3; fabs (value) >= 999.95 && i + 1 < G_N_ELEMENTS (prefixes); i++)
    value /= 1e3;
  return format_scaled (value, prefixes[i]);
}

/* Bytes of the escape sequence for colours and styles that the text begins with, "\033[1;31m"; 0: it does not. */
static gsize colour_length (const char *text)
{
  gsize n = g_str_has_prefix (text, "\033[") ? 2 + strspn (text + 2, "0123456789;") : 0;

  return n > 0 && text[n] == 'm' ? n + 1 : 0;
}

static char *format_safe (const char *text, gboolean line_ends, gboolean coloured)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *safe = g_string_new (NULL);

  for (const char *c = valid; *c != '\0';) {
    gsize n = coloured ? colour_length (c) : 0;

    if (n == 0 && g_unichar_iscntrl (g_utf8_get_char (c)) && (!line_ends || (*c != '\n' && *c != '\t')))
      g_string_append_c (safe, ' ');
    else
      g_string_append_len (safe, c, (gssize)(n > 0 ? n : (gsize)(g_utf8_next_char (c) - c)));
    c = n > 0 ? c + n : g_utf8_next_char (c);
  }
  return g_string_free (safe, FALSE);
}

char *ps_format_line (const char *text)
{
  return format_safe (text, FALSE, FALSE);
}

char *ps_format_page (const char *text, gboolean coloured)
{
  return format_safe (text, TRUE, coloured);
}

static gboolean is_text (const char *argument)
{
  g_autofree char *text = g_locale_to_utf8 (argument, -1, NULL, NULL, NULL);

  return text != NULL;
}

char *ps_error_line (const GError *error, char *const *argv)
{
  guint i = 1;

  while (argv[i] != NULL && is_text (argv[i]))
    i++;
  if (error->domain != G_CONVERT_ERROR || argv[i] == NULL)
    return ps_format_line (error->message);
  const char *equals = argv[i][0] == '-' ? strchr (argv[i], '=') : NULL, *charset;
  g_autofree char *option = equals != NULL ? g_strndup (argv[i], (gsize)(equals - argv[i])) : g_strdup (argv[i - 1]);
  g_autofree char *value = g_strescape (equals != NULL ? equals + 1 : argv[i], NULL);
  g_get_charset (&charset);
  return g_strdup_printf ("%s: '%s' is not text in %s, the encoding of this locale", option, value, charset);
}

int ps_error_report (const char *where, const GError *error, char *const *argv)
{
  g_autofree char *line = ps_error_line (error, argv);

  g_printerr ("%s: %s\n", where, line);
  return ps_error_exit_code (error);
}

gconstpointer ps_table_find (const char *where, const char *what, const char *name, gconstpointer table, guint n,
                             GError **error)
{
  const char *const *const *rows = table;
  g_autofree const char **names = g_new (const char *, n);
  g_autofree char *problem = g_strdup_printf ("%s: '%s' is no %s; there are", where, name, what);

  for (guint i = 0; i < n; i++) {
    if (g_str_equal (*rows[i], name))
      return rows[i];
    names[i] = *rows[i];
  }
  ps_refuse_name (error, problem, name, names, n);
  return NULL;
}

int ps_compare_int64 (gconstpointer a, gconstpointer b)
{
  gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;

  return PS_COMPARE (x, y);
}

int ps_compare_double (gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return PS_COMPARE (x, y);
}

guint ps_first_after (const GArray *array, gsize offset, gint64 time_ns)
{
  gsize size = g_array_get_element_size ((GArray *)array);
  guint low = 0, high = array->len;

  while (low < high) {
    guint middle = (low + high) / 2;

    if (*(const gint64 *)(gconstpointer)&g_array_index (array, char, middle *size + offset) <= time_ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

gint64 ps_median (gint64 *values, gsize n)
{
  g_return_val_if_fail (n > 0, 0);
  qsort (values, n, sizeof *values, ps_compare_int64);
  return values[(n - 1) / 2];
}

gint64 ps_mean (const gint64 *values, gsize n)
{
  double sum = 0;

  g_return_val_if_fail (n > 0, 0);
  for (gsize i = 0; i < n; i++)
    sum += (double)values[i];
  return llround (sum / (double)n);
}

/* Texts that users write. */

#define MAX_QUOTED 60

gboolean ps_text_check (const char *where, const char *text, gsize length, gsize max_length, GError **error)
{
  const char *wrong = NULL;
  g_autofree char *limit = ps_format_size ((gint64)max_length);

  if (length == 0)
    wrong = "is empty";
  else if (length > max_length)
    wrong = "is too long, more than ";
  else if (memchr (text, '\0', length) != NULL)
    wrong = "is not a text file (it contains NUL bytes)";
  else if (!g_utf8_validate (text, (gssize)length, NULL))
    wrong = "is not UTF-8 text";
  if (wrong != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s%s", where, wrong, length > max_length ? limit : "");
  return wrong == NULL;
}

char *ps_text_quote (const char *text)
{
  g_autofree char *escaped = g_strescape (text, NULL);

  return strlen (escaped) <= MAX_QUOTED ? g_strdup_printf ("'%s'", escaped)
                                        : g_strdup_printf ("'%.*s...'", MAX_QUOTED, escaped);
}

char *ps_shell_word (const char *text)
{
  gsize n_plain = strspn (text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_./:=,+");

  return n_plain > 0 && text[n_plain] == '\0' ? g_strdup (text) : g_shell_quote (text);
}

gboolean ps_refuse_at (char *where, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  ps_refuse (error, PS_ERROR_INPUT, "%s: %s", where, what);
  g_free (where);
  return FALSE;
}

gboolean ps_text_blame_input (GError **error)
{
  if (error != NULL && *error != NULL)
    (*error)->code = PS_ERROR_INPUT;
  return FALSE;
}

char *ps_text_next_line (const char **rest, glong width)
{
  const char *end = *rest, *blank = NULL;

  for (glong i = 0; *end != '\0' && i < width; i++, end = g_utf8_next_char (end))
    if (*end == ' ')
      blank = end;
  if (*end != '\0' && *end != ' ' && blank != NULL)
    end = blank;
  char *line = g_strndup (*rest, (gsize)(end - *rest));
  *rest = *end == ' ' ? end + 1 : end;
  return line;
}

/* Where the lines after a cut one begin: under the first letter, or under the one after the first gap of two blanks or
 * more. */
static glong find_indent (const char *line, glong width)
{
  const char *text = line + strspn (line, " "), *gap = strstr (text, "  ");
  const char *after = gap != NULL ? gap + strspn (gap, " ") : "";
  glong indent = g_utf8_pointer_to_offset (line, *after != '\0' ? after : text);

  return 2 * indent < width ? indent : 0;
}

void ps_text_wrap (const char *text, glong width, GString *page)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++) {
    const char *rest = lines[i];
    glong indent = 0;

    do {
      g_autofree char *line = ps_text_next_line (&rest, width - indent);

      g_string_append_printf (page, "%*s%s\n", (int)indent, "", line);
      indent = find_indent (lines[i], width);
    } while (*rest != '\0');
  }
}
