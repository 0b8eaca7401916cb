/* fuzz-wire.c - what the processes of a run say to each other, as a stranger might. The first byte says in which pieces
 * it comes. */
#include "fuzz.h"
#include "processes/wire.h"

static void
read_payload (const PsFrame *frame)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) notice = NULL;
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  PsHello hello;

  fuzz_check_error (ps_hello_read (frame, &hello, &error), &error);
  if (hello.version == PS_WIRE_VERSION)
    ps_hello_append (bytes, &hello);
  notice = ps_notice_read (frame, &error);
  fuzz_check_error (notice != NULL, &error);
  if (notice == NULL)
    return;
  g_assert_true (g_utf8_validate (notice->message, -1, NULL));
  g_assert_null (strpbrk (notice->message, "\n\r"));
  ps_notice_append (bytes, PS_FRAME_ABORT, notice);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  size_t piece = size > 0 && data[0] > 0 ? data[0] : 256;
  g_auto (PsWireReader) reader;
  g_autoptr (GError) error = NULL;

  ps_wire_reader_init (&reader);
  for (size_t at = 1; at < size && error == NULL; at += piece)
    {
      PsFrame frame;

      ps_wire_reader_feed (&reader, data + at, MIN (piece, size - at));
      while (ps_wire_reader_next (&reader, &frame, &error))
        {
          g_assert_cmpuint (frame.length, <=, PS_WIRE_MAX_PAYLOAD);
          read_payload (&frame);
        }
    }
  if (error != NULL)
    fuzz_check_error (FALSE, &error);
  return 0;
}
