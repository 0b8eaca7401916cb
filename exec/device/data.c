/* data.c - weights and tokens from counters: number i of a stream does not depend on the numbers before it. */
#include "device/data.h"

#include <pipesim/philox.h>

static guint64
mix (guint64 x)
{
  return ps_splitmix_next (&x);
}

static guint64
stream_key (guint64 seed, guint32 stream, guint32 index)
{
  return mix (mix (seed) ^ ((guint64)stream << 32 | index));
}

/* The sum of four uniform numbers of 0..65535 has the variance 4 * (65536^2 - 1) / 12. */
static float
bell (guint64 bits)
{
  const gint sum
      = (gint)(bits & 0xffff) + (gint)(bits >> 16 & 0xffff) + (gint)(bits >> 32 & 0xffff) + (gint)(bits >> 48);

  return (float)(sum - 2 * 65535) * (1.7320508f / 65536);
}

void
ps_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index)
{
  const guint64 key = stream_key (seed, stream, index);

  for (gsize i = 0; i < n; i++)
    weights[i] = deviation * bell (mix (key + i));
}

#define STREAM_SUCCESSOR 0xffffff02u
#define STREAM_SEQUENCE 0xffffff03u

/* One token in SURPRISE does not follow from the token before it. */
#define SURPRISE 8

void
ps_data_words (guint32 *words, guint batch, guint sequence, guint vocabulary, guint64 seed, guint microbatch)
{
  const guint64 successor = stream_key (seed, STREAM_SUCCESSOR, 0);
  const guint64 surprises = stream_key (seed, STREAM_SEQUENCE, microbatch);
  const gsize length = (gsize)sequence + 1;

  for (gsize i = 0; i < batch * length; i++)
    {
      const guint64 bits = mix (surprises + i);
      const gboolean surprise = i % length == 0 || bits % SURPRISE == 0;

      words[i] = (guint32)((surprise ? bits >> 16 : mix (successor + words[i - 1])) % vocabulary);
    }
}
