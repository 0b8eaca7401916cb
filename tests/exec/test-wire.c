/* Tests of wire: frames survive however the bytes are cut, and strangers are refused with their first wrong byte. */
#include "processes/wire.h"

#include <pipesim/base.h>

#include <string.h>

static void
test_numbers (void)
{
  guint8 bytes[8];
  const guint8 expected[] = { 0x12, 0x34, 0x56, 0x78 };

  ps_wire_put (bytes, 4, 0x12345678);
  g_assert_cmpmem (bytes, 4, expected, 4);
  g_assert_cmpuint (ps_wire_get (bytes, 4), ==, 0x12345678);
  ps_wire_put (bytes, 8, G_MAXUINT64 - 1);
  g_assert_cmpuint (ps_wire_get (bytes, 8), ==, G_MAXUINT64 - 1);
}

/* Magic, kind 6 (PART), zeros, length, payload. */
static void
test_layout (void)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  ps_frame_append (bytes, PS_FRAME_PART, "abc", 3);
  g_assert_cmpmem (bytes->data, bytes->len, "PSIM\6\0\0\0\0\0\0\3abc", 15);
}

/* Frames of 0 to 99 bytes in a row, fed in pieces of every length. */
static void
test_pieces (void)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 payload[100];

  for (guint i = 0; i < sizeof payload; i++)
    payload[i] = (guint8)i;
  for (guint i = 0; i < sizeof payload; i++)
    ps_frame_append (bytes, PS_FRAME_LAST, payload, i);
  for (guint piece = 1; piece < 150; piece++)
    {
      g_auto (PsWireReader) reader;
      guint n = 0;

      ps_wire_reader_init (&reader);
      for (guint at = 0; at < bytes->len; at += piece)
        {
          PsFrame frame;
          g_autoptr (GError) error = NULL;

          ps_wire_reader_feed (&reader, bytes->data + at, MIN (piece, bytes->len - at));
          while (ps_wire_reader_next (&reader, &frame, &error))
            {
              g_assert_cmpint (frame.kind, ==, PS_FRAME_LAST);
              g_assert_cmpmem (frame.payload, frame.length, payload, n);
              n++;
            }
          g_assert_no_error (error);
        }
      g_assert_cmpuint (n, ==, sizeof payload);
    }
}

static void
test_long (void)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autofree guint8 *payload = g_malloc0 (PS_WIRE_MAX_PAYLOAD);
  g_auto (PsWireReader) reader;
  PsFrame frame;

  ps_wire_reader_init (&reader);
  for (guint i = 0; i < 3; i++)
    {
      ps_frame_append (bytes, PS_FRAME_LAST, payload, PS_WIRE_MAX_PAYLOAD);
      ps_wire_reader_feed (&reader, bytes->data, bytes->len);
      g_assert_true (ps_wire_reader_next (&reader, &frame, NULL));
      g_assert_cmpuint (frame.length, ==, PS_WIRE_MAX_PAYLOAD);
      g_assert_false (ps_wire_reader_next (&reader, &frame, NULL));
      g_byte_array_set_size (bytes, 0);
    }
}

static void
assert_refused (const char *bytes, gsize n_bytes, const char *message)
{
  g_auto (PsWireReader) reader;
  g_autoptr (GError) error = NULL;
  PsFrame frame;

  ps_wire_reader_init (&reader);
  ps_wire_reader_feed (&reader, bytes, n_bytes);
  g_assert_false (ps_wire_reader_next (&reader, &frame, &error));
  if (message == NULL)
    {
      g_assert_no_error (error);
      return;
    }
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_cmpstr (error->message, ==, message);
  /* And so it stays. */
  g_assert_false (ps_wire_reader_next (&reader, &frame, NULL));
}

static void
test_strangers (void)
{
  assert_refused ("GET / HTTP/1.1\r\n", 16, "does not speak pipesim's language");
  assert_refused ("PSIN", 4, "does not speak pipesim's language");
  assert_refused ("x", 1, "does not speak pipesim's language");
  assert_refused ("PSIM", 4, NULL);
  assert_refused ("PSIM\6\0\0", 7, NULL);
  assert_refused ("PSIM\0\0\0\0", 8, "sent a frame of unknown kind 0");
  assert_refused ("PSIM\377\0\0\0", 8, "sent a frame of unknown kind 255");
  assert_refused ("PSIM\6\0\1\0", 8, "sent a frame of unknown kind 6");
  assert_refused ("PSIM\6\0\0\0\0\20\0\0", 12, NULL);
  assert_refused ("PSIM\6\0\0\0\0\20\0\1", 12, "sent a frame of 1048577 B, at most 1048576 are right");
}

/* A frame of its own from what was appended. */
static PsFrame
only_frame (PsWireReader *reader, const GByteArray *bytes)
{
  PsFrame frame = { 0 };

  ps_wire_reader_init (reader);
  ps_wire_reader_feed (reader, bytes->data, bytes->len);
  g_assert_true (ps_wire_reader_next (reader, &frame, NULL));
  return frame;
}

static void
test_hello (void)
{
  const PsHello hello = { .version = PS_WIRE_VERSION, .rank = 7, .n_ranks = 4096, .host = "here" };
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_auto (PsWireReader) reader;
  g_autoptr (GError) error = NULL;
  PsFrame frame;
  PsHello again;

  ps_hello_append (bytes, &hello);
  frame = only_frame (&reader, bytes);
  g_assert_true (ps_hello_read (&frame, &again, NULL));
  g_assert_cmpuint (again.rank, ==, 7);
  g_assert_cmpuint (again.n_ranks, ==, 4096);
  g_assert_cmpstr (again.host, ==, "here");
  frame.length = 11;
  g_assert_false (ps_hello_read (&frame, &again, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
}

/* Whatever another version says after its number. */
static void
test_other_version (void)
{
  const guint8 payload[] = { 0, 0, 1, 0, 99 };
  const PsFrame frame = { .kind = PS_FRAME_HELLO, .length = sizeof payload, .payload = payload };
  PsHello hello;

  g_assert_true (ps_hello_read (&frame, &hello, NULL));
  g_assert_cmpuint (hello.version, ==, 256);
  g_assert_cmpuint (hello.n_ranks, ==, 0);
}

static void
test_notice (void)
{
  g_autofree char *text = g_strnfill (PS_WIRE_MAX_TEXT + 10, 'x');
  g_autoptr (GError) notice = g_error_new (PS_ERROR, PS_ERROR_UNAVAILABLE, "rank 3: no\nGPU \xff");
  g_autoptr (GError) endless = g_error_new_literal (PS_ERROR, PS_ERROR_IO, text);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_auto (PsWireReader) reader, second;
  PsFrame frame;
  g_autoptr (GError) again = NULL, cut = NULL, error = NULL;

  ps_notice_append (bytes, PS_FRAME_ABORT, notice);
  frame = only_frame (&reader, bytes);
  again = ps_notice_read (&frame, NULL);
  g_assert_error (again, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_cmpstr (again->message, ==, "rank 3: no GPU \357\277\275");
  g_byte_array_set_size (bytes, 0);
  ps_notice_append (bytes, PS_FRAME_ABORT, endless);
  frame = only_frame (&second, bytes);
  cut = ps_notice_read (&frame, NULL);
  g_assert_cmpuint (strlen (cut->message), ==, PS_WIRE_MAX_TEXT);
  frame.length = 4;
  g_assert_null (ps_notice_read (&frame, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/wire/numbers", test_numbers);
  g_test_add_func ("/wire/layout", test_layout);
  g_test_add_func ("/wire/pieces", test_pieces);
  g_test_add_func ("/wire/long", test_long);
  g_test_add_func ("/wire/strangers", test_strangers);
  g_test_add_func ("/wire/hello", test_hello);
  g_test_add_func ("/wire/other-version", test_other_version);
  g_test_add_func ("/wire/notice", test_notice);
  return g_test_run ();
}
