/* events-timed.h - events in the order of time, for times that depend on other ops and transfers of the same instant.
 * Private to sim/simulate/events*.c.
 *
 * An event is the end of a device's op or of a phase of a transfer. All events of one instant are taken before anything
 * new begins, so that it does not matter which comes first.
 */
#pragma once

#include "events-heap.h"
#include "events-private.h"

#define PS_NO_ITEM G_MAXUINT32

typedef struct
{
  guint32 item;     /* that it runs; PS_NO_ITEM when idle */
  gboolean waiting; /* for its ready_ns */
  gboolean queued;  /* among the awake */
  guint n_active;   /* transfers that it takes part in */
  gint64 work_left; /* of its op, as of since_ns: duration times slowdown */
  gint64 since_ns;
  const PsInstruction *next; /* with overlap_waiting: after the op up to which it has come to sends and receives */
} PsTimedDevice;

typedef struct _PsLinks PsLinks;

struct _PsTimed
{
  gint64 now_ns;
  guint turn;   /* events that were due together, and all that began after them */
  PsHeap *heap; /* ids: devices, then n_devices + transfer */
  PsTimedDevice *devices;
  guint8 *joined;  /* [n_messages] bit 0: the sender takes part, bit 1: the receiver does */
  gint64 slowdown; /* factor on ops beside transfers, in thousandths; 1000: none */
  PsLinks *links;  /* NULL: transfers share none */
};

/* A transfer's part in its links. */
PsLinks *ps_links_new (const PsEvents *events);
void ps_links_free (PsLinks *links);
void ps_links_begin (PsLinks *links);

/* Starts a transfer; its next event is put into the heap. */
void ps_links_start (PsEvents *events, guint32 transfer);

/* Takes its event. Returns TRUE when the transfer is over; else it has got through the latency and moves its bytes. */
gboolean ps_links_event (PsEvents *events, guint32 transfer);

/* Finds new rates after the events of an instant, and when each transfer is over at its rate. */
void ps_links_settle (PsEvents *events);

/* The order as a hint, and messages by whichever channel is free. */
PsReady *ps_ready_new (const PsEvents *events);
void ps_ready_free (PsReady *ready);
void ps_ready_begin (PsEvents *events);

/* The item that an idle device starts now; PS_NO_ITEM when none may. */
guint32 ps_ready_pick (PsEvents *events, guint device);

/* Takes over the transfers that are startable, and returns the next that may begin now as 1 + transfer; 0: none. */
guint32 ps_ready_next_transfer (PsEvents *events);

/* A transfer gives its ends free. */
void ps_ready_end_transfer (PsEvents *events, guint32 transfer);
