/* wire.c - frames as bytes and back. */
#include "wire.h"

#include <pipesim/base.h>

#include <string.h>

#define MAGIC "PSIM"
#define HEADER_SIZE 12
#define HELLO_SIZE 12 /* without the host */
#define NOTICE_SIZE 4 /* without the text */
#define SHRINK_SIZE (1 << 16)

void
ps_wire_put (guint8 *bytes, guint n_bytes, guint64 value)
{
  for (guint i = n_bytes; i-- > 0; value >>= 8)
    bytes[i] = (guint8)value;
}

guint64
ps_wire_get (const guint8 *bytes, guint n_bytes)
{
  guint64 value = 0;

  for (guint i = 0; i < n_bytes; i++)
    value = value << 8 | bytes[i];
  return value;
}

void
ps_frame_append (GByteArray *bytes, PsFrameKind kind, gconstpointer payload, gsize length)
{
  guint8 header[HEADER_SIZE] = MAGIC;

  g_return_if_fail (length <= PS_WIRE_MAX_PAYLOAD);

  header[4] = (guint8)kind;
  ps_wire_put (header + 8, 4, length);
  g_byte_array_append (bytes, header, HEADER_SIZE);
  if (length > 0)
    g_byte_array_append (bytes, payload, (guint)length);
}

void
ps_wire_reader_init (PsWireReader *reader)
{
  *reader = (PsWireReader){ .bytes = g_byte_array_new () };
}

void
ps_wire_reader_clear (PsWireReader *reader)
{
  g_clear_pointer (&reader->bytes, g_byte_array_unref);
}

void
ps_wire_reader_feed (PsWireReader *reader, gconstpointer bytes, gsize n_bytes)
{
  if (reader->n_read == reader->bytes->len || reader->n_read >= SHRINK_SIZE)
    {
      g_byte_array_remove_range (reader->bytes, 0, reader->n_read);
      reader->n_read = 0;
    }
  g_byte_array_append (reader->bytes, bytes, (guint)n_bytes);
}

/* Wrong bytes are refused as soon as they are there, not only with a whole header. */
static gboolean
check_header (const guint8 *header, guint n, GError **error)
{
  static const guint8 zero[3];

  if (memcmp (header, MAGIC, MIN (n, 4)) != 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "does not speak pipesim's language");
  else if (n >= 8 && (header[4] == 0 || header[4] >= PS_N_FRAME_KINDS || memcmp (header + 5, zero, 3) != 0))
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent a frame of unknown kind %u", header[4]);
  else if (n >= HEADER_SIZE && ps_wire_get (header + 8, 4) > PS_WIRE_MAX_PAYLOAD)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent a frame of %" G_GUINT64_FORMAT " B, at most %d are right",
                 ps_wire_get (header + 8, 4), PS_WIRE_MAX_PAYLOAD);
  else
    return TRUE;
  return FALSE;
}

gboolean
ps_wire_reader_next (PsWireReader *reader, PsFrame *frame, GError **error)
{
  guint n = reader->bytes->len - reader->n_read;
  const guint8 *header;
  guint32 length;

  if (n == 0)
    return FALSE;
  header = reader->bytes->data + reader->n_read;
  if (!check_header (header, n, error) || n < HEADER_SIZE)
    return FALSE;
  length = (guint32)ps_wire_get (header + 8, 4);
  if (n - HEADER_SIZE < length)
    return FALSE;
  *frame = (PsFrame){ .kind = (PsFrameKind)header[4], .length = length, .payload = header + HEADER_SIZE };
  reader->n_read += HEADER_SIZE + length;
  return TRUE;
}

void
ps_hello_append (GByteArray *bytes, const PsHello *hello)
{
  guint8 payload[HELLO_SIZE + PS_WIRE_MAX_HOST];
  gsize length = strlen (hello->host);

  ps_wire_put (payload, 4, hello->version);
  ps_wire_put (payload + 4, 4, hello->rank);
  ps_wire_put (payload + 8, 4, hello->n_ranks);
  memcpy (payload + HELLO_SIZE, hello->host, length);
  ps_frame_append (bytes, PS_FRAME_HELLO, payload, HELLO_SIZE + length);
}

gboolean
ps_hello_read (const PsFrame *frame, PsHello *hello, GError **error)
{
  *hello = (PsHello){ 0 };
  if (frame->kind == PS_FRAME_HELLO && frame->length >= 4)
    hello->version = (guint32)ps_wire_get (frame->payload, 4);
  if (hello->version != PS_WIRE_VERSION && hello->version != 0)
    return TRUE;
  if (hello->version == 0 || frame->length < HELLO_SIZE || frame->length > HELLO_SIZE + PS_WIRE_MAX_HOST)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent no greeting");
      return FALSE;
    }
  hello->rank = (guint32)ps_wire_get (frame->payload + 4, 4);
  hello->n_ranks = (guint32)ps_wire_get (frame->payload + 8, 4);
  memcpy (hello->host, frame->payload + HELLO_SIZE, frame->length - HELLO_SIZE);
  return TRUE;
}

void
ps_notice_append (GByteArray *bytes, PsFrameKind kind, const GError *notice)
{
  guint8 payload[NOTICE_SIZE + PS_WIRE_MAX_TEXT];
  gsize length = MIN (strlen (notice->message), PS_WIRE_MAX_TEXT);

  ps_wire_put (payload, NOTICE_SIZE, notice->domain == PS_ERROR ? (guint64)notice->code : PS_ERROR_IO);
  memcpy (payload + NOTICE_SIZE, notice->message, length);
  ps_frame_append (bytes, kind, payload, NOTICE_SIZE + length);
}

GError *
ps_notice_read (const PsFrame *frame, GError **error)
{
  g_autofree char *raw = NULL, *text = NULL;
  guint64 code;

  if (frame->length <= NOTICE_SIZE || frame->length > NOTICE_SIZE + PS_WIRE_MAX_TEXT)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent a notice without a text");
      return NULL;
    }
  code = ps_wire_get (frame->payload, NOTICE_SIZE);
  raw = g_strndup ((const char *)frame->payload + NOTICE_SIZE, frame->length - NOTICE_SIZE);
  text = ps_format_line (raw);
  return g_error_new_literal (PS_ERROR, code <= PS_ERROR_UNAVAILABLE ? (gint)code : PS_ERROR_IO, text);
}
