/* data.c - weights and tokens from counters: number i of a stream does not depend on the numbers before it. */
#include "train/data.h"

#include <pipesim/philox.h>

#include <math.h>

static guint64 mix (guint64 x)
{
  return ps_splitmix_next (&x);
}

static guint64 stream_key (guint64 seed, guint32 stream, guint32 index)
{
  return mix (mix (seed) ^ ((guint64)stream << 32 | index));
}

/* The sum of four uniform numbers of 0..65535 has the variance 4 * (65536^2 - 1) / 12. */
static float bell (guint64 bits)
{
  const gint sum
      = (gint)(bits & 0xffff) + (gint)(bits >> 16 & 0xffff) + (gint)(bits >> 32 & 0xffff) + (gint)(bits >> 48);

  return (float)(sum - 2 * 65535) * (1.7320508f / 65536);
}

void ps_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index)
{
  const guint64 key = stream_key (seed, stream, index);

  for (gsize i = 0; i < n; i++)
    weights[i] = deviation * bell (mix (key + i));
}

#define STREAM_SUCCESSOR 0xffffff02u
#define STREAM_SEQUENCE 0xffffff03u

/* One token in SURPRISE does not follow from the token before it. */
#define SURPRISE 8

void ps_data_words (guint32 *words, guint batch, guint sequence, guint vocabulary, guint64 seed, guint microbatch)
{
  const guint64 successor = stream_key (seed, STREAM_SUCCESSOR, 0);
  const guint64 surprises = stream_key (seed, STREAM_SEQUENCE, microbatch);
  const gsize length = (gsize)sequence + 1;

  for (gsize i = 0; i < batch * length; i++) {
    const guint64 bits = mix (surprises + i);
    const gboolean surprise = i % length == 0 || bits % SURPRISE == 0;

    words[i] = (guint32)((surprise ? bits >> 16 : mix (successor + words[i - 1])) % vocabulary);
  }
}

#define STREAM_TEXT 0xffffff04u

void ps_data_text (guint32 *words, guint batch, guint sequence, GBytes *text, guint64 seed, guint64 microbatch)
{
  const guint64 places = stream_key (seed, STREAM_TEXT, 0);
  const gsize length = (gsize)sequence + 1;
  gsize n_bytes;
  const guint8 *bytes = g_bytes_get_data (text, &n_bytes);

  g_return_if_fail (n_bytes >= length);

  for (guint row = 0; row < batch; row++) {
    const guint8 *from = bytes + mix (places + microbatch * batch + row) % (n_bytes - sequence);

    for (gsize i = 0; i < length; i++)
      words[row * length + i] = from[i];
  }
}

void ps_data_read (guint32 *words, const PsDeviceSetting *setting, guint64 step, guint microbatch)
{
  const PsModel *model = setting->model;
  const guint number = setting->replica * setting->n_microbatches + microbatch;
  const guint64 n_all = (guint64)setting->n_microbatches * MAX (setting->n_replicas, 1);

  if (setting->training != NULL && setting->training->text != NULL)
    ps_data_text (words, model->microbatch_size, model->sequence, setting->training->text, setting->seed,
                  step * n_all + number);
  else
    ps_data_words (words, model->microbatch_size, model->sequence, model->vocabulary, setting->seed, number);
}

double ps_data_rate (const PsTraining *training, guint64 step)
{
  if (training == NULL)
    return 1e-3;
  if (step < training->warm_up)
    return training->learning_rate * (double)(step + 1) / training->warm_up;
  if (training->decay <= training->warm_up)
    return training->decay > 0 ? training->least_rate : training->learning_rate;
  double progress = MIN (1, (double)(step - training->warm_up) / (training->decay - training->warm_up));
  return training->least_rate + (training->learning_rate - training->least_rate) * (1 + cos (G_PI * progress)) / 2;
}

/* Texts */

#define N_SUMS 2000
#define N_TOKENS 256 /* values of a byte */

/* Appends a number below 200 in words. */
static void append_number (GString *text, guint number)
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

static char *make_sums (gsize *length)
{
  GString *text = g_string_new (NULL);
  guint64 counter = 1;

  for (guint i = 0; i < N_SUMS; i++) {
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

GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model, GError **error)
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
