/* events-private.h - the state of the events engine, and the steps that both of its loops are made of. Private to
 * sim/simulate/events*.c. */
#pragma once

#include "program/channels.h"
#include "simulate-private.h"
#include <pipesim/simulate.h>

#include <math.h>

/* One transfer on its way through its conditions: its data exists, it is the next one on each end, and in blocking runs
 * each device has come to it. An eager message has two transfers. The first holds the sender's end; the second is over
 * when the message has arrived and its turn on the receiver's end has come. */
typedef struct
{
  gint64 start_ns;   /* when the last condition so far was met */
  gint64 end_ns;     /* until it starts: its duration */
  guint32 next[2];   /* 1 + transfers of which a condition is met when it ends; 0 = none */
  guint32 message;   /* of the program */
  guint32 consumer;  /* the message's */
  guint16 sender;    /* the message's */
  guint16 receiver;  /* the message's */
  guint8 missing;    /* conditions not yet met */
  guint8 conditions; /* in all */
  guint8 done;
  guint8 part : 2;   /* PsTransferPart */
  guint8 held : 2;   /* with channels: their ends that it holds, the sender's first */
  guint8 shares : 1; /* in this run it may have to share a link with others */
  guint8 joined : 2; /* before its end is known: bit 0: the sender takes part, bit 1: the receiver does */
} PsTransfer;

typedef enum
{
  PS_TRANSFER_WHOLE,
  PS_TRANSFER_EAGER_SEND,
  PS_TRANSFER_EAGER_RECEIVE,
} PsTransferPart;

typedef enum
{
  PS_ITEM_OP,
  PS_ITEM_SEND,    /* blocking runs only: the device comes to the transfer and goes on when it is over */
  PS_ITEM_RECEIVE, /* the same */
} PsItemType;

/* One thing that a device does. */
typedef struct
{
  gint64 duration_ns;
  guint32 step;
  guint32 cost;    /* of an op: index into PsCosts.op */
  guint32 wait;    /* 1 + transfer that must be over first; 0 = none */
  guint32 send[2]; /* 1 + transfers whose data the op makes; 0 = none */
  guint8 type;     /* PsItemType */
  guint8 pair;     /* PsPairRole */
} PsItem;

typedef struct
{
  gint64 clock_ns; /* end of its last op, or of its last send or receive when blocking */
  guint32 next;    /* item */
  guint32 end;     /* after its last item */
  guint32 blocked; /* 1 + transfer that it waits for; 0 = none */
  gboolean posted; /* it has come to the send or receive that is its next item */
} PsEventDevice;

typedef struct _PsTimed PsTimed;
typedef struct _PsReady PsReady;
typedef struct _PsReplay PsReplay;

struct _PsEvents
{
  const PsProgram *program;
  PsEventsSetting setting;
  PsChannels *channels;
  guint n_devices;
  guint n_transfers; /* messages, then the second parts of eager ones */
  PsTransfer *transfers;
  guint n_items;
  PsItem *items; /* by device, in order */
  guint32 *item_of_step;
  guint *first_item; /* [n_devices + 1] */
  PsEventDevice *devices;
  guint n_startable;
  guint32 *startable; /* [n_transfers] transfers whose conditions are all met */
  guint n_awake;
  guint16 *awake;           /* [n_devices] devices that may go on */
  PsTimed *timed;           /* NULL: times follow from the order alone */
  PsReady *ready;           /* NULL: program order */
  guint n_runs;             /* that came to their end */
  PsReplay *replay;         /* NULL: the order of an earlier run is not known */
  const gint64 *urgency_ns; /* [n_steps] of their inputs: with ready_order, the message of the largest goes first; NULL:
                               the first to exist does */
  gboolean exclusive;       /* with ready_order: a device moves one message or runs an op, never both */
  /* of the run */
  const PsCosts *costs;
  PsSimulation *simulation;
};

static inline void
ps_event_meet (PsEvents *events, guint32 transfer, gint64 time_ns)
{
  PsTransfer *met = &events->transfers[transfer - 1];

  met->start_ns = MAX (met->start_ns, time_ns);
  if (--met->missing == 0)
    events->startable[events->n_startable++] = transfer - 1;
}

static inline void
ps_event_wake (PsEvents *events, guint device, guint32 transfer)
{
  if (events->devices[device].blocked != transfer)
    return;
  events->devices[device].blocked = 0;
  events->awake[events->n_awake++] = (guint16)device;
}

/* A transfer is over at its end_ns. */
static inline void
ps_event_complete (PsEvents *events, guint32 index)
{
  PsTransfer *transfer = &events->transfers[index];

  transfer->done = TRUE;
  if (transfer->part != PS_TRANSFER_EAGER_RECEIVE)
    events->simulation->transfer_start_ns[transfer->consumer] = transfer->start_ns;
  events->simulation->transfer_end_ns[transfer->consumer] = transfer->end_ns;
  for (guint i = 0; i < G_N_ELEMENTS (transfer->next); i++)
    if (transfer->next[i] != 0)
      ps_event_meet (events, transfer->next[i], transfer->end_ns);
  ps_event_wake (events, transfer->receiver, index + 1);
  if (events->setting.blocking)
    ps_event_wake (events, transfer->sender, index + 1);
}

/* Runs an op from start_ns to its end, which is returned, where nothing else changes its duration. */
static inline gint64
ps_event_run_op (PsEvents *events, const PsItem *item, gint64 start_ns)
{
  gint64 end_ns = start_ns + item->duration_ns;

  events->simulation->start_ns[item->step] = start_ns;
  events->simulation->end_ns[item->step + 1] = end_ns;
  return end_ns;
}

/* The order in which a run finds its times: each op (id: its item) and transfer (id: n_items + transfer) when its end
 * is known, with the op's step or that of the consumer. */
PsReplay *ps_replay_new (const PsEvents *events);
void ps_replay_free (PsReplay *replay);
void ps_replay_note (PsReplay *replay, guint32 id, guint32 step);

/* All are noted. */
void ps_replay_complete (PsEvents *events);

/* A run in that order; FALSE: it is not known. */
gboolean ps_replay_run (PsEvents *events);

/* The engine for times that depend on other ops and transfers of the same instant (events-timed.h). */
PsTimed *ps_timed_new (PsEvents *events);
void ps_timed_free (PsTimed *timed);
