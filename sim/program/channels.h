/* channels.h - the channels that carry the messages of a program: the order of messages on each end, and explanations
 * of deadlocks. Private to libpipesim. */
#pragma once

#include <pipesim/program.h>

/* The two sides of a message. */
enum { PS_SIDE_SENDER, PS_SIDE_RECEIVER, PS_N_SIDES };

/* The place of a message in the order of one end of a channel. An end belongs to one device and carries its sends and
 * receives in the order of the instructions. */
typedef struct {
  guint32 end;    /* number of the end */
  guint32 next;   /* 1 + message that follows on the end; 0 = none */
  gboolean waits; /* for another message on the end */
} PsEndPlace;

typedef struct {
  const PsProgram *program;
  guint n_ends;                     /* 0: no channels, no message waits for another */
  PsEndPlace (*on_end)[PS_N_SIDES]; /* [n_messages] */
} PsChannels;

/* The program must outlive them. Free with ps_channels_free. */
PsChannels *ps_channels_new (const PsProgram *program, PsChannel channel) G_GNUC_WARN_UNUSED_RESULT;
void ps_channels_free (PsChannels *channels);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsChannels, ps_channels_free)

static inline guint ps_instruction_side (const PsInstruction *post)
{
  return post->type == PS_INSTRUCTION_SEND ? PS_SIDE_SENDER : PS_SIDE_RECEIVER;
}

/* Where a run that cannot go on has come to. */
typedef struct {
  const guint *cursor;    /* [n_devices] instruction that a device cannot pass; its end where it has finished */
  const guint8 *done;     /* [n_messages] whether the transfer took place */
  const guint8 *exists;   /* [n_messages] whether its data exists; NULL: where the device has come to its send */
  gboolean receives_wait; /* a receive takes part only when its device has reached it, not as soon as its channel has */
} PsChannelsStuck;

/* Sets PS_ERROR_SCHEDULE "NAME: deadlock: ..." with the circle of instructions that wait for each other. Some device
 * must be stuck. */
void ps_channels_explain (const PsChannels *channels, const PsChannelsStuck *stuck, GError **error);
