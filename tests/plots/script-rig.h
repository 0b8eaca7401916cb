/* script-rig.h - what pictures ask gnuplot for: a program in its place keeps the script, whose variables and blocks are
 * read back. */
#pragma once

#include "program-rig.h"

#include <sys/stat.h>

/* Runs a program that draws, which must succeed, and returns its script. NAME.svg is in the command line. */
static inline char *script_of (const char *where, const char *program, const char *arguments)
{
  static const char stand_in[] = "#!/bin/sh\ncat >script\necho '<?xml></svg>'\n";
  g_autofree char *gnuplot = g_build_filename (where, "gnuplot", NULL), *path = NULL, *talk = NULL, *script = NULL;
  g_autofree char *kept = g_build_filename (where, "script", NULL), *line = with_timelines (arguments);
  g_auto (GStrv) environment = g_get_environ ();

  path = g_strconcat (where, ":/usr/bin:/bin", NULL);
  environment = g_environ_setenv (environment, "PATH", path, TRUE);
  g_assert_true (g_file_set_contents (gnuplot, stand_in, -1, NULL));
  g_assert_cmpint (g_chmod (gnuplot, 0755), ==, 0);
  g_assert_cmpint (run_program (where, program, line, environment, NULL, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (kept, &script, NULL, NULL));
  g_unlink (kept);
  g_unlink (gnuplot);
  return g_steal_pointer (&script);
}

/* The word that begins at *at, without its quotes and with its octal signs read; *at moves behind it. */
static inline char *script_word (const char **at)
{
  GString *word = g_string_new (NULL);
  gboolean quoted = **at == '"';

  for (*at += quoted; quoted ? **at != '"' : **at != '\0' && **at != ' ' && **at != '\n'; (*at)++)
    if (**at == '\\') {
      g_autofree char *octal = g_strndup (*at + 1, 4);

      g_string_append_c (word, (char)g_ascii_strtoull (octal, NULL, 8));
      *at += 4;
    } else
      g_string_append_c (word, **at);
  *at += quoted;
  return g_string_free (word, FALSE);
}

static inline char *script_text (const char *script, const char *name)
{
  g_autofree char *begin = g_strdup_printf ("\n%s = ", name);
  const char *at = strstr (script, begin);

  if (at == NULL)
    g_error ("the script does not set %s", name);
  at += strlen (begin);
  return script_word (&at);
}

static inline double script_number (const char *script, const char *name)
{
  g_autofree char *text = script_text (script, name);

  return g_ascii_strtod (text, NULL);
}

static inline double script_element (const char *script, const char *array, guint i)
{
  g_autofree char *name = g_strdup_printf ("%s[%u]", array, i);

  return script_number (script, name);
}

static inline void rows_free (gpointer row)
{
  g_strfreev (row);
}

/* The rows of a block, each of words; blank lines are empty rows. Free with g_ptr_array_unref. */
static inline GPtrArray *script_block (const char *script, const char *name)
{
  g_autofree char *begin = g_strdup_printf ("\n$%s << EOD\n", name);
  GPtrArray *rows = g_ptr_array_new_with_free_func (rows_free);
  const char *at = strstr (script, begin);

  if (at == NULL)
    g_error ("the script has no block %s", name);
  for (at += strlen (begin); !g_str_has_prefix (at, "EOD\n"); at++) {
    g_autoptr (GStrvBuilder) words = g_strv_builder_new ();

    for (; *at != '\n'; at += *at == ' ') {
      g_autofree char *word = script_word (&at);

      g_strv_builder_add (words, word);
    }
    g_ptr_array_add (rows, g_strv_builder_end (words));
  }
  return rows;
}

static inline const char *word_at (const GPtrArray *rows, guint row, guint column)
{
  g_assert_cmpuint (row, <, rows->len);
  g_assert_cmpuint (column, <, g_strv_length (rows->pdata[row]));
  return ((char **)rows->pdata[row])[column];
}

static inline double number_at (const GPtrArray *rows, guint row, guint column)
{
  return g_ascii_strtod (word_at (rows, row, column), NULL);
}
