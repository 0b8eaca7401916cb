/* put.h - texts and integers written one after the other into a buffer, for files of millions of rows: printf would
 * take most of the time. Each function returns the place after what it wrote. Private to libpipesim. */
#pragma once

#include <glib.h>
#include <string.h>

static inline char *
ps_put (char *to, const char *text)
{
  return stpcpy (to, text);
}

/* At most 20 letters. */
static inline char *
ps_put_integer (char *to, gint64 value)
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
