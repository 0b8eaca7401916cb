/* command.c - reads command lines, and writes the page of --help from the rows of the options. */
#include <pipesim/option.h>

#include "text.h"

#include <stdlib.h>
#include <string.h>

#define INDENT 28        /* columns before the text of an option */
#define PAGE_COLUMNS 110 /* where no window is known */
#define LEAST_COLUMNS 60
#define MOST_COLUMNS 120

static const char *const headings[PS_N_GROUPS] = {
  [PS_GROUP_OWN] = "Options",         [PS_GROUP_WHAT] = "What to simulate", [PS_GROUP_COSTS] = "Costs",
  [PS_GROUP_MACHINE] = "Machine",     [PS_GROUP_CHANNELS] = "Channels",     [PS_GROUP_TRAINING] = "Training",
  [PS_GROUP_VARIATION] = "Variation", [PS_GROUP_OUTPUT] = "Output",
};

/* The options on the page */

static char *format_initial (const PsOption *row)
{
  if (row->type == PS_OPTION_TIME)
    return ps_format_time ((gint64)row->initial);
  if (row->type == PS_OPTION_NAME)
    return g_strdup (row->name_of ((guint)row->initial));
  return g_strdup_printf (row->type == PS_OPTION_PERCENT ? "%g %%" : "%g",
                          row->type == PS_OPTION_PERCENT ? 100 * row->initial : row->initial);
}

/* A flag is off; that goes without saying. A text that is not given is none. A number that is not given is one that
 * could be given, or the row says otherwise. */
static void append_default (const PsOption *row, GString *text)
{
  gboolean is_none = row->type == PS_OPTION_RATE || row->type >= PS_OPTION_TEXT;
  const char *words = row->otherwise != NULL ? row->otherwise : row->none != NULL ? row->none : is_none ? "none" : NULL;
  g_autofree char *initial = words == NULL && row->type != PS_OPTION_FLAG ? format_initial (row) : NULL;

  g_assert (initial == NULL || row->initial >= row->low);
  if (words != NULL && *words == '\0')
    g_string_append (text, " [required]");
  else if (words != NULL || initial != NULL)
    g_string_append_printf (text, " [default: %s]", words != NULL ? words : initial);
}

static void append_option (const PsOption *row, GString *page)
{
  const char letter[] = { '-', row->letter, ',', ' ', '\0' };
  g_autofree char *names
      = g_strconcat (row->letter != 0 ? letter : "", "--", row->name, row->argument != NULL ? "=" : "",
                     row->argument != NULL ? row->argument : "", NULL);
  g_autoptr (GString) text = g_string_new (row->help);
  gboolean beside = strlen (names) + 4 <= INDENT;

  if (row->add_values != NULL)
    row->add_values (g_string_append_c (text, ':'));
  append_default (row, text);
  if (beside)
    g_string_append_printf (page, "  %-*s%s\n", INDENT - 2, names, text->str);
  else
    g_string_append_printf (page, "  %s\n%*s%s\n", names, INDENT, "", text->str);
}

/* Whether the page has the option: rows that include it leave some out, or take only some. */
static gboolean is_shown (const PsOption *row, guint16 without, guint16 only)
{
  return *row->name != '\0' && !row->hidden && !(row->flags & without) && (only == 0 || row->flags & only);
}

static void append_group (const PsOption *rows, PsOptionGroup group, guint16 without, guint16 only, GString *page)
{
  for (; rows->name != NULL; rows++)
    if (rows->rows != NULL)
      append_group (rows->rows, group, without | rows->flags, rows->only, page);
    else if (rows->group == group && is_shown (rows, without, only))
      append_option (rows, page);
}

char *ps_command_options (const PsOption *rows)
{
  GString *page = g_string_new (NULL);

  for (guint group = 0; group < PS_N_GROUPS; group++) {
    g_autoptr (GString) options = g_string_new (NULL);

    append_group (rows, (PsOptionGroup)group, 0, 0, options);
    if (options->len > 0)
      g_string_append_printf (page, "%s%s:\n%s", page->len > 0 ? "\n" : "", headings[group], options->str);
  }
  return g_string_free (page, FALSE);
}

/* The page */

char *ps_command_page (const char *text)
{
  guint window = ps_window_columns ();
  glong columns = window > 0 ? CLAMP (window, LEAST_COLUMNS, MOST_COLUMNS) : PAGE_COLUMNS;
  g_autofree char *lines = g_strchomp (g_strdup (text));
  GString *page = g_string_new (NULL);

  ps_text_wrap (lines, columns, page);
  return g_string_free (page, FALSE);
}

static void append_examples (const char *examples, GString *page)
{
  g_auto (GStrv) lines = g_strsplit (examples, "\n", -1);

  g_string_append (page, "Examples:\n");
  for (guint i = 0; *lines[i] != '\0'; i++)
    g_string_append_printf (page, "  %s\n", lines[i]);
}

static char *write_page (const PsCommandHelp *help, const PsOption *rows)
{
  gboolean takes = help->arguments != NULL, explains = help->text != NULL;
  g_autofree char *options = ps_command_options (rows);
  g_autofree char *text = g_strconcat ("Usage: ", g_get_prgname (), takes ? " " : "", takes ? help->arguments : "",
                                       " [OPTION...]\n\n", help->summary, "\n\n", options, *options != '\0' ? "\n" : "",
                                       "  -h, --help                Print this page\n", explains ? "\n" : "",
                                       explains ? help->text : "", NULL);
  g_autofree char *lines = ps_command_page (text);
  GString *page = g_string_new (lines);

  append_examples (help->examples, g_string_append_c (page, '\n'));
  return g_string_free (page, FALSE);
}

/* Command lines */

typedef struct {
  const PsCommandHelp *help;
  const PsOption *rows;
} Page;

/* Does as GOption's own --help. */
static gboolean print_page (G_GNUC_UNUSED const char *name, G_GNUC_UNUSED const char *value, gpointer data,
                            G_GNUC_UNUSED GError **error)
{
  const Page *about = data;
  char *page = write_page (about->help, about->rows);
  gboolean printed = ps_print (page, NULL);

  g_free (page);
  exit (printed ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void add_names (const PsOption *rows, guint16 without, guint16 only, GPtrArray *names)
{
  for (; rows->name != NULL; rows++)
    if (rows->rows != NULL)
      add_names (rows->rows, without | rows->flags, rows->only, names);
    else if (is_shown (rows, without, only))
      g_ptr_array_add (names, (gpointer)rows->name);
}

/* Ends GOption's "Unknown option --NAME" with the option that may be meant. */
static void suggest (const PsOption *rows, GError *error)
{
  const char *dashes = strstr (error->message, "--");
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *typed = NULL, *meant = NULL, *before = error->message;

  add_names (rows, 0, 0, names);
  typed = g_strndup (dashes != NULL ? dashes + 2 : "", dashes != NULL ? strcspn (dashes + 2, "=") : 0);
  meant = ps_did_you_mean (typed, (const char *const *)names->pdata, names->len, "--");
  error->message = g_strconcat (before, meant, NULL);
}

gboolean ps_command_parse (const PsCommandHelp *help, const PsOption *rows, gpointer base, int *argc, char ***argv,
                           GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  Page page = { help, rows };
  GOptionGroup *group = g_option_group_new ("help", "", "", &page, NULL);
  const GOptionEntry entries[] = { { .long_name = "help",
                                     .short_name = 'h',
                                     .flags = G_OPTION_FLAG_NO_ARG,
                                     .arg = G_OPTION_ARG_CALLBACK,
                                     .arg_data = G_GNUC_EXTENSION (gpointer) print_page },
                                   { .long_name = NULL } };
  GError *cause = NULL;

  g_option_group_add_entries (group, entries);
  g_option_context_add_group (context, group);
  g_option_context_set_help_enabled (context, FALSE);
  ps_options_add (rows, base, context);
  if (g_option_context_parse (context, argc, argv, &cause))
    return TRUE;
  if (g_error_matches (cause, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION))
    suggest (rows, cause);
  g_propagate_error (error, cause);
  return FALSE;
}
