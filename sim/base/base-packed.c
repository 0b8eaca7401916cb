/* base-packed.c - gzip files, written and read. */
#include "base-packed.h"

#include <string.h>
#include <zlib.h>

#define BLOCK_BYTES (1 << 16)
/* Texts of programs shrink to a tenth or so. More than this, and it is there to fill a memory or to take time. */
#define MOST_TIMES 100
#define ANY_RATIO_BYTES (16 << 20) /* where a text may begin with whatever it likes */
#define MAX_WHOLE_BYTES ((gsize)1 << 30)

GBytes *
ps_pack (const char *contents, gsize n)
{
  GByteArray *packed = g_byte_array_new ();
  g_autofree guchar *block = g_malloc (BLOCK_BYTES);
  const guchar *end = (const guchar *)contents + n;
  z_stream stream = { .next_in = (guchar *)contents };
  int result = deflateInit2 (&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY);

  while (result == Z_OK)
    {
      stream.avail_in = (guint)MIN (end - stream.next_in, G_MAXINT);
      stream.next_out = block;
      stream.avail_out = BLOCK_BYTES;
      result = deflate (&stream, end - stream.next_in > G_MAXINT ? Z_NO_FLUSH : Z_FINISH);
      g_byte_array_append (packed, block, BLOCK_BYTES - stream.avail_out);
    }
  deflateEnd (&stream);
  if (result == Z_STREAM_END)
    return g_byte_array_free_to_bytes (packed);
  g_byte_array_unref (packed);
  return NULL;
}

gboolean
ps_is_packed (const char *contents, gsize n)
{
  return n >= 2 && memcmp (contents, "\x1f\x8b", 2) == 0;
}

struct _PsUnpacker
{
  guchar *data;
  gsize size;
  gboolean packed;
  gsize n_copied; /* where it is not */
  z_stream stream;
  int result; /* of zlib: Z_OK, or Z_STREAM_END after the last byte */
};

PsUnpacker *
ps_unpacker_new (const char *data, gsize size)
{
  PsUnpacker *unpacker = g_new0 (PsUnpacker, 1);

  unpacker->data = (guchar *)data;
  unpacker->size = size;
  unpacker->packed = ps_is_packed (data, size);
  unpacker->result = inflateInit2 (&unpacker->stream, 16 + MAX_WBITS);
  unpacker->stream.next_in = unpacker->data;
  return unpacker;
}

void
ps_unpacker_free (PsUnpacker *unpacker)
{
  if (unpacker == NULL)
    return;
  inflateEnd (&unpacker->stream);
  g_free (unpacker);
}

void
ps_unpacker_rewind (PsUnpacker *unpacker)
{
  unpacker->n_copied = 0;
  unpacker->result = inflateReset (&unpacker->stream);
  unpacker->stream.next_in = unpacker->data;
}

gboolean
ps_unpacker_read (PsUnpacker *unpacker, const char *where, char *block, gsize n, gsize *n_read, GError **error)
{
  z_stream *stream = &unpacker->stream;

  if (!unpacker->packed)
    {
      *n_read = MIN (n, unpacker->size - unpacker->n_copied);
      memcpy (block, unpacker->data + unpacker->n_copied, *n_read);
      unpacker->n_copied += *n_read;
      return TRUE;
    }
  stream->next_out = (guchar *)block;
  stream->avail_out = (guint)MIN (n, G_MAXINT);
  while (unpacker->result == Z_OK && stream->avail_out > 0)
    {
      stream->avail_in = (guint)MIN (unpacker->size - (gsize)(stream->next_in - unpacker->data), G_MAXINT);
      unpacker->result = inflate (stream, Z_NO_FLUSH);
    }
  *n_read = (gsize)((char *)stream->next_out - block);
  if (stream->total_out > ANY_RATIO_BYTES && stream->total_out / MOST_TIMES > stream->total_in)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: it holds more than %d times its size", where,
                      MOST_TIMES);
  if (unpacker->result == Z_OK || unpacker->result == Z_STREAM_END)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: %s", where,
                    unpacker->result == Z_BUF_ERROR ? "the file is cut off" : "the file is damaged");
}

char *
ps_unpack (const char *where, const char *data, gsize size, gsize *length, GError **error)
{
  g_autoptr (PsUnpacker) unpacker = ps_unpacker_new (data, size);
  g_autoptr (GByteArray) text = g_byte_array_new ();
  gsize n = BLOCK_BYTES;

  for (*length = 0; n == BLOCK_BYTES && *length <= MAX_WHOLE_BYTES; *length += n)
    {
      g_byte_array_set_size (text, (guint)(*length + BLOCK_BYTES + 1));
      if (!ps_unpacker_read (unpacker, where, (char *)text->data + *length, BLOCK_BYTES, &n, error))
        return NULL;
    }
  if (*length > MAX_WHOLE_BYTES)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: cannot unpack: it holds more than 1 GiB", where);
  text->data[*length] = '\0';
  return (char *)g_byte_array_free (g_steal_pointer (&text), FALSE);
}
