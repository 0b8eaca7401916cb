/* corpus.c - reads a text, or makes the one that ships by a rule. */
#include "corpus.h"

#include <pipesim/philox.h>

#define N_SUMS 2000
#define N_TOKENS 256 /* values of a byte */

/* Appends a number below 200 in words. */
static void
append_number (GString *text, guint number)
{
  static const char *const ones[] = { "zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen" };
  static const char *const tens[]
      = { "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety" };
  guint rest = number % 100;

  if (number >= 100)
    g_string_append (text, rest > 0 ? "one hundred and " : "one hundred");
  if (rest >= 20)
    g_string_append_printf (text, "%s%s", tens[rest / 10], rest % 10 > 0 ? "-" : "");
  if (rest < 20 && (rest > 0 || number == 0))
    g_string_append (text, ones[rest]);
  else if (rest % 10 > 0)
    g_string_append (text, ones[rest % 10]);
}

static char *
make_sums (gsize *length)
{
  GString *text = g_string_new (NULL);
  guint64 counter = 1;

  for (guint i = 0; i < N_SUMS; i++)
    {
      guint64 drawn = ps_splitmix_next (&counter);
      guint a = (guint)(drawn % 100), b = (guint)(drawn / 100 % 100);

      append_number (text, a);
      g_string_append (text, " and ");
      append_number (text, b);
      g_string_append (text, " make ");
      append_number (text, a + b);
      g_string_append (text, ".\n");
    }
  *length = text->len;
  return g_string_free (text, FALSE);
}

GBytes *
ps_corpus_load (const char *option, const char *name, const PsModel *model, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (model->vocabulary < N_TOKENS)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: the model has a vocabulary of %u; bytes need %d", option,
                           model->vocabulary, N_TOKENS);
  if (g_str_equal (name, PS_CORPUS_SUMS))
    text = make_sums (&length);
  else if (!ps_read_file (name, &text, &length, error))
    return NULL;
  if (length > model->sequence)
    return g_bytes_new_take (g_steal_pointer (&text), length);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: %s has %" G_GSIZE_FORMAT " bytes; a sequence of %u tokens needs %u", option, name, length,
                         model->sequence, model->sequence + 1);
}
