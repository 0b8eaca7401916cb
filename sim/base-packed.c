/* base-packed.c - gzip files, written and read. */
#include "base-packed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define BLOCK_BYTES (1 << 16)
#define MAX_UNPACKED_BYTES (G_GINT64_CONSTANT (4) << 30) /* as large as an unpacked file may be */

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

/* Maps a file that is no longer needed under its name. */
static GBytes *
map_stream (const char *path, FILE *file, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (GMappedFile) mapped = NULL;

  if (fflush (file) == 0)
    mapped = g_mapped_file_new_from_fd (fileno (file), FALSE, &cause);
  if (mapped != NULL)
    return g_mapped_file_get_bytes (mapped);
  return ps_refuse_null (error, PS_ERROR_IO, "%s: cannot unpack into a temporary file: %s", path,
                         cause != NULL ? cause->message : g_strerror (errno));
}

/* Unpacks into the file; *length becomes the bytes written. The result is zlib's: Z_STREAM_END when all is well,
 * Z_ERRNO when the file does not take it. */
static int
unpack_into (FILE *file, GBytes *packed, gint64 *length)
{
  g_autofree guchar *block = g_malloc (BLOCK_BYTES);
  gsize size;
  guchar *data = (guchar *)g_bytes_get_data (packed, &size);
  z_stream stream = { .next_in = data };
  int result = inflateInit2 (&stream, 16 + MAX_WBITS);

  while (result == Z_OK && *length <= MAX_UNPACKED_BYTES)
    {
      gsize left = size - (gsize)(stream.next_in - data), n;

      stream.avail_in = (guint)MIN (left, G_MAXINT);
      stream.next_out = block;
      stream.avail_out = BLOCK_BYTES;
      result = inflate (&stream, Z_NO_FLUSH);
      n = BLOCK_BYTES - stream.avail_out;
      *length += (gint64)n;
      if (fwrite (block, 1, n, file) < n)
        result = Z_ERRNO;
    }
  inflateEnd (&stream);
  return result;
}

GBytes *
ps_unpack (const char *path, GBytes *packed, GError **error)
{
  FILE *file = tmpfile ();
  GBytes *text = NULL;
  gint64 length = 0;
  int result = file != NULL ? unpack_into (file, packed, &length) : Z_ERRNO;

  if (length > MAX_UNPACKED_BYTES)
    ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: it holds more than 4 GiB", path);
  else if (result == Z_ERRNO)
    ps_refuse (error, PS_ERROR_IO, "%s: cannot unpack into a temporary file: %s", path, g_strerror (errno));
  else if (result != Z_STREAM_END)
    ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: %s", path,
               result == Z_BUF_ERROR ? "the file is cut off" : "the file is damaged");
  else
    text = map_stream (path, file, error);
  if (file != NULL)
    fclose (file);
  return text;
}
