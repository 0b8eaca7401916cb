/* events-timed.h - events in the order of time, for times that depend on other ops and transfers of the same instant.
 * Private to sim/simulate/events*.c.
 *
 * An event is an end that others may still put off: of an op that transfers slow down, of a phase of a transfer that
 * shares links. In ready order also the end of any op, after which a device looks for the next one. Everything else
 * follows from the order alone, as in events.c, and is found as soon as the event before it is. Nothing is found to
 * begin before the first event that is due, so that its time is final. All events of one instant are taken before
 * anything new begins: it does not matter which comes first.
 */
#pragma once

#include "events-due.h"
#include "events-private.h"

#define PS_NO_ITEM G_MAXUINT32

/* A time in which a device sends or receives. */
typedef struct
{
  gint64 from_ns;
  gint64 until_ns;
} PsSpan;

typedef struct
{
  guint32 item;     /* that it runs; PS_NO_ITEM when idle */
  gint64 start_ns;  /* of the item's op */
  gint64 end_ns;    /* of the item's op as far as is known */
  gboolean waiting; /* for its ready_ns */
  gboolean queued;  /* among the awake */
  guint n_open;     /* transfers that it takes part in and whose end is not known */
  gint64 open_ns;   /* since when it takes part in any of these */
  guint n_passed;   /* spans that end before its op begins */
  guint n_spans;
  PsSpan
      *spans; /* with slow-down: when it takes part in transfers whose end is known; in order, none touches another */
  const PsInstruction *next; /* with overlap_waiting: after the op up to which it has come to sends and receives */
} PsTimedDevice;

typedef struct _PsLinks PsLinks;

struct _PsTimed
{
  gint64 now_ns;
  guint turn;      /* events that were due together, and all that began after them */
  PsDue *due;      /* ids: devices, then n_devices + transfer that has begun */
  PsDue *begins;   /* ids: transfers that begin later */
  gint64 retry_ns; /* in ready order: when a channel end comes free that a transfer waits for */
  PsTimedDevice *devices;
  PsSpan *spans;     /* of all devices; NULL: no slow-down */
  gboolean slows;    /* ends of ops are not known when they start */
  gboolean occupies; /* it matters which devices take part in a transfer */
  gint64 slowdown;   /* factor on ops beside transfers, in thousandths; 1000: none */
  PsLinks *links;    /* NULL: transfers share none */
};

/* A device that may begin an op, or where messages need their devices alone, a message. */
static inline gboolean
ps_timed_is_idle (const PsEvents *events, guint index)
{
  const PsTimedDevice *device = &events->timed->devices[index];

  return device->item == PS_NO_ITEM && !device->waiting && !(events->exclusive && device->n_open > 0);
}

/* A run: all that can go on goes on and links settle, then the events of the next instant are taken, until there are
 * none. */
void ps_timed_run (PsEvents *events);

/* An op starts, at any time from now on. Its end is an event. */
G_GNUC_INTERNAL void ps_timed_start_op (PsEvents *events, guint device, guint32 item, gint64 start_ns);

/* The conditions of a transfer are met. It is over unless its end depends on others. */
G_GNUC_INTERNAL void ps_timed_start_transfer (PsEvents *events, guint32 transfer);

/* A transfer's part in its links. */
PsLinks *ps_links_new (const PsEvents *events);
void ps_links_free (PsLinks *links);
void ps_links_begin (PsEvents *events);

/* Starts a transfer; its next event is due. */
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

/* The end of a transfer is known, until which it holds its channel ends. */
void ps_ready_arrive (PsEvents *events, guint32 transfer);

/* [n_items] items of each device in the order in which they started. */
const guint32 *ps_ready_sequence (const PsReady *ready);

/* When an input arrives that the last search has missed; G_MAXINT64: none is known to arrive. */
gint64 ps_ready_wake_ns (const PsEvents *events);

typedef void (*PsTransferBegin) (PsEvents *events, guint32 transfer);

/* Calls `begin` for all transfers that may begin now, and finds when to try the others again (PsTimed.retry_ns). */
void ps_ready_start_transfers (PsEvents *events, PsTransferBegin begin);

/* A transfer holds its channel ends; G_MAXINT64: its end is not known. */
void ps_ready_hold (PsEvents *events, guint32 transfer, gint64 until_ns);
