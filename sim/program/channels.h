/* channels.h - the transfers of a program and the channels that carry them: which send meets which receive, what
 * follows on each end, and who waits for whom when nothing moves. Private to libpipesim. */
#ifndef PIPESIM_CHANNELS_H
#define PIPESIM_CHANNELS_H

#include <pipesim/program.h>

G_BEGIN_DECLS

#define PS_HEAD_SEND 1
#define PS_HEAD_RECEIVE 2

/* One transfer. An end of a channel is what one device sees of it; it carries its sends and receives in the order of
 * the instructions. */
typedef struct
{
  guint32 send;         /* instruction */
  guint32 receive;      /* instruction */
  guint32 next_send;    /* 1 + message that follows on the sender's end; 0 = none */
  guint32 next_receive; /* the same on the receiver's end */
  guint16 sender;       /* device */
  guint16 receiver;
  guint8 heads; /* PS_HEAD_*: the ends on which it is the first; none for the latency model, which has no ends */
} PsMessage;

typedef struct
{
  const PsProgram *program;
  PsChannel channel;
  guint n_messages;
  PsMessage *messages; /* in the order of their receives */
  guint32 *message_of; /* [n_instructions] 1 + message of a send, receive or wait; 0 for compute */
  guint32 *places;     /* [3 * cells] 1 + send, receive and wait of each possible message */
} PsChannels;

/* Transfers of the latency model share nothing: no message has another behind it. Errors: PS_ERROR_SCHEDULE where an
 * instruction lacks its counterpart, stands twice, or waits in front of its receive. The program must outlive them.
 * Free with ps_channels_free. */
PsChannels *ps_channels_new (const PsProgram *program, PsChannel channel, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_channels_free (PsChannels *channels);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsChannels, ps_channels_free)

/* 1 + the message that carries what op, an F or B, makes; 0 when there is none. */
guint32 ps_channels_find (const PsChannels *channels, PsOp op);

/* Where a run that cannot go on has come to. */
typedef struct
{
  const guint *cursor;    /* [n_devices] instruction that a device cannot pass; its end where it has finished */
  const guint8 *done;     /* [n_messages] whether the transfer took place */
  const guint8 *exists;   /* [n_messages] whether its data exists; NULL: where the device has come to its send */
  gboolean receives_wait; /* a receive takes part only when its device has reached it, not as soon as its channel has */
} PsChannelsStuck;

/* Sets PS_ERROR_SCHEDULE "NAME: deadlock: ..." with the circle of instructions that wait for each other. Some device
 * must be stuck. */
void ps_channels_explain (const PsChannels *channels, const PsChannelsStuck *stuck, GError **error);

G_END_DECLS

#endif
