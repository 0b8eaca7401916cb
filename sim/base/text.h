/* text.h - texts that users write: checks that they are text at all, and quotes them in messages; and texts of millions
 * of rows. Private to the project. */
#pragma once

#include <pipesim/base.h>

#include <string.h>

/* Checks that the contents of a file are text: not empty, of at most max_length bytes, free of NUL, UTF-8. Errors:
 * PS_ERROR_INPUT "where: ...". */
gboolean ps_text_check (const char *where, const char *text, gsize length, gsize max_length, GError **error);

/* The text in single quotes, always printable and short: escaped as g_strescape does, cut after 60 bytes. Free with
 * g_free. */
char *ps_text_quote (const char *text);

/* The text as one word of a command line: quoted where a shell would read it otherwise. Free with g_free. */
char *ps_shell_word (const char *text);

/* Sets PS_ERROR_INPUT "where: ..." with a message as of printf. Frees `where`; returns FALSE. */
gboolean ps_refuse_at (char *where, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* Turns an error of a parser of base.h into PS_ERROR_INPUT. These parsers are made for options; an error in a file is
 * wrong input. Returns FALSE. */
gboolean ps_text_blame_input (GError **error);

/* Cuts the first line of at most `width` letters off *rest, at a blank. Free with g_free. */
char *ps_text_next_line (const char **rest, glong width);

/* Appends the lines of a text, those longer than `width` letters cut at blanks, each with "\n". The rest of a cut line
 * begins below its first letter, or below the one after its first gap of two blanks or more, as in a table. */
void ps_text_wrap (const char *text, glong width, GString *page);

/* Texts and integers written one after the other into a buffer, for files of millions of rows: printf would take most
 * of the time. Each function returns the place after what it wrote. */
static inline char *ps_put (char *to, const char *text)
{
  return stpcpy (to, text);
}

/* At most 20 letters. */
static inline char *ps_put_integer (char *to, gint64 value)
{
  char digits[20];
  guint n = 0;
  guint64 left = value < 0 ? 0 - (guint64)value : (guint64)value;

  if (value < 0)
    *to++ = '-';
  for (; n == 0 || left > 0; left /= 10)
    digits[n++] = (char)('0' + left % 10);
  while (n > 0)
    *to++ = digits[--n];
  *to = '\0';
  return to;
}
