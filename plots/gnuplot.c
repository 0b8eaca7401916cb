/* gnuplot.c - runs gnuplot on a script and moves its picture to the file. */
#include "gnuplot.h"

#include "base/files.h"

#include <pipesim/option.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  const char *ending;
  const char *begin, *end; /* of a complete picture */
} Format;

static const Format formats[] = {
  { ".svg", "<?xml", "</svg>" },
  { ".png", "\x89PNG", "IEND\xae\x42\x60\x82" },
  { ".pdf", "%PDF-", "%%EOF" },
};

static const Format *find_format (const char *path)
{
  for (gsize i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_has_suffix (path, formats[i].ending))
      return &formats[i];
  return NULL;
}

/* A page inlines SVG. */
static const Format *format_of (const PsPicture *picture)
{
  return picture->inlined != NULL ? formats : find_format (picture->output);
}

/* What a wheel brings (python/wheel.sh); it knows no terminals but svg and dumb. */
#define OWN_GNUPLOT "pipesim-gnuplot"

/* The system's gnuplot, else the one that came with this program. NULL: there is none. Free with g_free. */
static char *find_gnuplot (void)
{
  char *program = g_find_program_in_path ("gnuplot");

  if (program == NULL) {
    g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
    g_autofree char *folder = g_path_get_dirname (self != NULL ? self : ".");
    g_autofree char *own = g_build_filename (folder, OWN_GNUPLOT, NULL);

    program = g_file_test (own, G_FILE_TEST_IS_EXECUTABLE) ? g_steal_pointer (&own) : NULL;
  }
  return program;
}

gboolean ps_picture_check (const PsPicture *picture, GError **error)
{
  const Format *format = find_format (picture->output);
  g_autofree char *gnuplot = find_gnuplot ();

  if (format == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "-o: '%s' does not end in .svg, .png or .pdf", picture->output);
  if (format != formats && gnuplot != NULL && g_str_has_suffix (gnuplot, "/" OWN_GNUPLOT))
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "-o: '%s': the gnuplot that came with pipesim draws .svg alone; install gnuplot for %s",
                      picture->output, format->ending);
  return TRUE;
}

void ps_gnuplot_append_text (GString *script, const char *name, const char *text)
{
  g_string_append_printf (script, "%s = ", name);
  ps_gnuplot_append_quoted (script, text);
  g_string_append_c (script, '\n');
}

void ps_gnuplot_append_quoted (GString *script, const char *text)
{
  g_autofree char *line = ps_format_line (text);

  g_string_append_c (script, '"');
  for (const char *c = line; *c; c++)
    if (g_ascii_isalnum (*c) || *c == ' ' || (guchar)*c >= 0x80)
      g_string_append_c (script, *c);
    else
      g_string_append_printf (script, "\\%04o", (guint)*c); /* gnuplot reads four digits where the first is 0 */
  g_string_append_c (script, '"');
}

void ps_gnuplot_append_array (GString *script, const char *name, guint n)
{
  g_string_append_printf (script, "array %s[%u]\n", name, MAX (n, 1));
}

void ps_gnuplot_append_element (GString *script, const char *array, guint i, const char *text)
{
  g_autofree char *name = g_strdup_printf ("%s[%u]", array, i);

  ps_gnuplot_append_text (script, name, text);
}

void ps_gnuplot_append_tick (GString *script, const char *array, guint i, const char *text)
{
  g_autoptr (GString) name = g_string_new (text);

  g_string_replace (name, "%", "%%", 0);
  ps_gnuplot_append_element (script, array, i, name->str);
}

void ps_gnuplot_append_number (GString *script, const char *name, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  g_ascii_dtostr (buffer, sizeof buffer, value);
  gboolean integer = strspn (buffer, "-0123456789") == strlen (buffer);
  g_string_append_printf (script, "%s = %s%s\n", name, buffer, integer ? ".0" : "");
}

static char *terminal_command (const PsPicture *picture, guint width, guint height)
{
  const char *ending = picture->terminal ? NULL : format_of (picture)->ending;
  guint scale = picture->width > 0 ? 1 : 2;
  char inches[2][G_ASCII_DTOSTR_BUF_SIZE];

  if (picture->terminal)
    return g_strdup_printf ("set terminal dumb noenhanced size %u,%u %s\n", width / PS_TERMINAL_COLUMN,
                            height / PS_TERMINAL_ROW, picture->plain ? "mono" : "ansirgb");
  if (g_str_equal (ending, ".svg"))
    return g_strdup_printf ("set terminal svg size %u,%u noenhanced font 'sans-serif,11' background '#ffffff'\n", width,
                            height);
  if (g_str_equal (ending, ".png"))
    return g_strdup_printf ("set terminal pngcairo size %u,%u noenhanced font 'Sans,11' fontscale %s linewidth %u "
                            "pointscale %u\n",
                            width * scale, height * scale, scale == 2 ? "1.5" : "0.75", scale, scale);
  return g_strdup_printf ("set terminal pdfcairo size %sin,%sin noenhanced font 'Sans,11' fontscale 0.58 linewidth 1\n",
                          g_ascii_formatd (inches[0], sizeof inches[0], "%.4f", width / 96.0),
                          g_ascii_formatd (inches[1], sizeof inches[1], "%.4f", height / 96.0));
}

extern const PsDataFile ps_plot_files[];

const char *ps_plot_file (const char *name)
{
  return ps_data_file_text (ps_plot_files, name);
}

/* The last line that is not blank; gnuplot pads its messages with blank lines and a copy of the command. */
static char *last_words (GMappedFile *talk)
{
  g_autofree char *text = g_strndup (g_mapped_file_get_contents (talk), g_mapped_file_get_length (talk));
  g_auto (GStrv) lines = g_strsplit (text != NULL ? text : "", "\n", -1);

  for (guint i = g_strv_length (lines); i > 0; i--)
    if (*g_strstrip (lines[i - 1]) != '\0')
      return g_strdup (lines[i - 1]);
  return g_strdup ("failed without a word");
}

static gboolean is_whole (const Format *format, const char *data, gsize size)
{
  const gsize tail = 64; /* white space may follow the end */
  gsize from = size > tail ? size - tail : 0, length = strlen (format->begin);

  return size > length && memcmp (data, format->begin, length) == 0
         && memmem (data + from, size - from, format->end, strlen (format->end)) != NULL;
}

/* gnuplot's standard input, output and errors are files in memory. With pipes, a gnuplot that gives up early could not
 * say why, and its output would have to be read while it runs. */
#define N_FILES 3

static gboolean open_files (int *files, const char *script, GError **error)
{
  gssize length = (gssize)strlen (script);
  gboolean ok = TRUE;

  for (guint i = 0; i < N_FILES; i++) {
    files[i] = memfd_create ("gnuplot", MFD_CLOEXEC);
    ok = ok && files[i] >= 0;
  }
  ok = ok && write (files[0], script, (gsize)length) == length && lseek (files[0], 0, SEEK_SET) == 0;
  if (!ok)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "gnuplot: cannot hold its script: %s", g_strerror (errno));
  return ok;
}

/* Options and habits of the user (~/.gnuplot) must not change our pictures: -d. GSubprocess would need a thread. */
static GBytes *run_in_files (const int *files, GError **error)
{
  g_autofree char *program = find_gnuplot ();
  char *argv[] = { program, (char *)"-d", (char *)"-", NULL };
  int status = -1;
  GPid child;

  if (program == NULL)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "gnuplot: not found; install Debian's gnuplot-nox");
  if (!g_spawn_async_with_fds (NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &child, files[0], files[1],
                               files[2], error)) {
    g_prefix_error (error, "gnuplot: ");
    return NULL;
  }
  while (waitpid (child, &status, 0) < 0 && errno == EINTR)
    ;
  const gboolean drawn = g_spawn_check_wait_status (status, NULL);
  g_autoptr (GMappedFile) mapped = g_mapped_file_new_from_fd (files[drawn ? 1 : 2], FALSE, error);
  if (mapped == NULL || drawn)
    return mapped != NULL ? g_mapped_file_get_bytes (mapped) : NULL;
  g_autofree char *message = last_words (mapped);
  return ps_refuse_null (error, PS_ERROR_IO, "gnuplot: %s", message);
}

static GBytes *run_gnuplot (const char *script, GError **error)
{
  int files[N_FILES];
  GBytes *output = open_files (files, script, error) ? run_in_files (files, error) : NULL;

  for (guint i = 0; i < N_FILES; i++)
    if (files[i] >= 0)
      close (files[i]);
  return output;
}

/* Prints text without gnuplot's form feeds between pages and blanks at the ends of lines. */
static gboolean print_text (const char *data, gsize size, GError **error)
{
  g_autoptr (GRegex) blanks = g_regex_new (" +$|\f", G_REGEX_MULTILINE | G_REGEX_RAW, 0, NULL);
  g_autofree char *text = g_regex_replace_literal (blanks, data, (gssize)size, 0, "", 0, NULL);

  return ps_print_coloured (text, error);
}

static gboolean append_title (const GMatchInfo *match, GString *svg, G_GNUC_UNUSED gpointer data)
{
  g_autofree char *escaped = g_match_info_fetch (match, 1), *text = g_uri_unescape_string (escaped, NULL);
  g_autofree char *safe = g_markup_escape_text (text != NULL ? text : "", -1);

  g_string_append_printf (svg, "<g class=\"mark\"><title>%s</title>", safe);
  return FALSE;
}

/* gnuplot's own hypertext wants a script. */
static char *hypertext_to_titles (const char *data, gsize size)
{
  g_autoptr (GRegex) hypertext = g_regex_new ("<g onmousemove=\"gnuplot_svg.showHypertext\\(evt,'([^']*)'\\)\"[^>]*>"
                                              "(<title> </title>)?",
                                              G_REGEX_RAW, 0, NULL);

  return g_regex_replace_eval (hypertext, data, (gssize)size, 0, 0, append_title, NULL, NULL);
}

/* The element alone, without gnuplot's own titles, which browsers would show, and without fonts and indents, which many
 * small texts repeat. */
static char *svg_element (const char *data, gsize size)
{
  g_autoptr (GRegex) needless
      = g_regex_new ("<title>[^<]*</title>|(?<=>)\\s+(?=<)| font-family=\"[^\"]*\"", G_REGEX_RAW, 0, NULL);
  const char *begin = strstr (data, "<svg");

  return g_regex_replace_literal (needless, begin, (gssize)size - (begin - data), 0, "", 0, NULL);
}

static gboolean keep_picture (const PsPicture *picture, const char *data, gsize size, GError **error)
{
  const Format *format = format_of (picture);

  if (!is_whole (format, data, size))
    return ps_refuse (error, PS_ERROR_IO, "gnuplot: drew no whole picture for %s",
                      picture->output != NULL ? picture->output : "the page");
  if (format != formats)
    return ps_write_file (picture->output, data, (gssize)size, error);
  if (picture->inlined != NULL) {
    g_autofree char *element = svg_element (data, size);

    *picture->inlined = hypertext_to_titles (element, strlen (element));
    return TRUE;
  }
  g_autofree char *svg = hypertext_to_titles (data, size);
  return ps_write_file (picture->output, svg, -1, error);
}

gboolean ps_gnuplot_draw (const PsPicture *picture, const char *title, guint width, guint height, const char *variables,
                          const char *template_name, GError **error)
{
  guint shown_width = picture->width > 0 ? picture->width : width;
  guint shown_height = picture->height > 0 ? picture->height : height;
  g_autofree char *terminal = terminal_command (picture, shown_width, shown_height);
  g_autoptr (GString) script = g_string_new (terminal);
  gsize size;

  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_number (script, "width", shown_width);
  ps_gnuplot_append_number (script, "height", shown_height);
  ps_gnuplot_append_number (script, "letter", picture->terminal ? PS_TERMINAL_COLUMN : 6.2);
  g_string_append (script, variables);
  g_string_append (script, ps_plot_file ("style.gp"));
  g_string_append (script, ps_plot_file (template_name));
  g_autoptr (GBytes) drawn = run_gnuplot (script->str, error);
  if (drawn == NULL)
    return FALSE;
  const char *data = g_bytes_get_data (drawn, &size);
  return picture->terminal ? print_text (data, size, error) : keep_picture (picture, data, size, error);
}
