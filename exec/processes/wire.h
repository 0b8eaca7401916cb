/* wire.h - what the processes of a run say to each other, as bytes: frames of a header and a payload.
 *
 * A frame: magic "PSIM", kind (1 byte), 3 zero bytes, payload length (4 bytes), payload. Numbers are big-endian. */
#ifndef PIPESIM_EXEC_WIRE_H
#define PIPESIM_EXEC_WIRE_H

#include <glib.h>

G_BEGIN_DECLS

#define PS_WIRE_VERSION 1
#define PS_WIRE_MAX_PAYLOAD (1 << 20)
#define PS_WIRE_MAX_TEXT 4096 /* bytes of a notice, without the NUL */
#define PS_WIRE_MAX_HOST 64

typedef enum
{
  PS_FRAME_HELLO = 1, /* to rank 0: a PsHello */
  PS_FRAME_REFUSE,    /* from rank 0: a PsNotice that says why */
  PS_FRAME_PING,      /* from rank 0: nothing */
  PS_FRAME_PONG,      /* the answer: 8 bytes, the answering clock in ns */
  PS_FRAME_START,     /* from rank 0, all are there: per rank 4 bytes, the lowest rank on the same host, and 8,
                          the offset of its clock */
  PS_FRAME_PART,      /* a part of a message, more follows */
  PS_FRAME_LAST,      /* the last part of a message */
  PS_FRAME_BEAT,      /* still alive: nothing */
  PS_FRAME_ABORT,     /* the run has failed: a PsNotice */
  PS_FRAME_BYE,       /* done: nothing */
  PS_N_FRAME_KINDS
} PsFrameKind;

typedef struct
{
  PsFrameKind kind;
  guint32 length;
  const guint8 *payload; /* [length] */
} PsFrame;

/* Appends a frame. length <= PS_WIRE_MAX_PAYLOAD. */
void ps_frame_append (GByteArray *bytes, PsFrameKind kind, gconstpointer payload, gsize length);

/* Takes bytes as they come and cuts them into frames. */
typedef struct
{
  GByteArray *bytes;
  guint n_read; /* of bytes, already handed out */
} PsWireReader;

void ps_wire_reader_init (PsWireReader *reader);
void ps_wire_reader_clear (PsWireReader *reader);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWireReader, ps_wire_reader_clear)

void ps_wire_reader_feed (PsWireReader *reader, gconstpointer bytes, gsize n_bytes);

/* The next whole frame; its payload stays until the reader is fed again. FALSE without an error: it is not there yet.
 * FALSE with PS_ERROR_INPUT: what comes is none of our frames, or one longer than PS_WIRE_MAX_PAYLOAD; so it stays. */
gboolean ps_wire_reader_next (PsWireReader *reader, PsFrame *frame, GError **error);

/* Who joins. */
typedef struct
{
  guint32 version; /* PS_WIRE_VERSION */
  guint32 rank;
  guint32 n_ranks;
  char host[PS_WIRE_MAX_HOST + 1]; /* equal for the ranks of one running system, which share a monotonic clock */
} PsHello;

void ps_hello_append (GByteArray *bytes, const PsHello *hello);
/* Another version's hello is read as far as its version, the rest stays zero. */
gboolean ps_hello_read (const PsFrame *frame, PsHello *hello, GError **error);

/* Appends an error as a frame of that kind, its text cut to PS_WIRE_MAX_TEXT. */
void ps_notice_append (GByteArray *bytes, PsFrameKind kind, const GError *notice);
/* The error that was appended; NULL with an error when the frame holds none. Texts that are not UTF-8 are made so, line
 * ends become blanks. */
GError *ps_notice_read (const PsFrame *frame, GError **error);

/* A number as big-endian bytes, and back. */
void ps_wire_put (guint8 *bytes, guint n_bytes, guint64 value);
guint64 ps_wire_get (const guint8 *bytes, guint n_bytes);

G_END_DECLS

#endif
