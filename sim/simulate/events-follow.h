/* events-follow.h - follows devices as far as their times are known, with the loop by time (events-timed.h) or without
 * it. Private to sim/simulate/events*.c. */
#pragma once

#include "events-timed.h"

static inline G_ALWAYS_INLINE void
ps_follow_transfers (PsEvents *events, gboolean timed)
{
  while (events->n_startable > 0)
    {
      guint32 index = events->startable[--events->n_startable];

      if (timed)
        {
          ps_timed_start_transfer (events, index);
          continue;
        }
      events->transfers[index].end_ns += events->transfers[index].start_ns;
      if (events->replay != NULL)
        ps_replay_note (events->replay, events->n_items + index, events->transfers[index].consumer);
      ps_event_complete (events, index);
    }
}

/* A blocking device comes to its send or receive. */
static inline G_ALWAYS_INLINE void
ps_follow_post (PsEvents *events, PsEventDevice *device, const PsItem *item, gboolean timed)
{
  if (!device->posted)
    ps_event_meet (events, item->wait, device->clock_ns);
  device->posted = TRUE;
  ps_follow_transfers (events, timed);
}

/* Runs a device until it waits for a transfer whose time is not known yet, or until it runs an op whose end is not. */
static inline G_ALWAYS_INLINE void
ps_follow (PsEvents *events, guint index, gboolean timed)
{
  PsEventDevice *device = &events->devices[index];
  gint64 clock = device->clock_ns;
  guint i;

  for (i = device->next; i < device->end; i++)
    {
      const PsItem *item = &events->items[i];

      if (item->type != PS_ITEM_OP)
        ps_follow_post (events, device, item, timed);
      if (item->wait != 0)
        {
          const PsTransfer *transfer = &events->transfers[item->wait - 1];

          if (!transfer->done)
            {
              device->blocked = item->wait;
              break;
            }
          clock = MAX (clock, transfer->end_ns);
        }
      if (timed && item->type == PS_ITEM_OP && events->timed->slows)
        {
          ps_timed_start_op (events, index, i++, clock);
          break;
        }
      if (item->type == PS_ITEM_OP)
        {
          clock = ps_event_run_op (events, item, clock);
          if (!timed && events->replay != NULL)
            ps_replay_note (events->replay, i, item->step);
          for (guint k = 0; k < G_N_ELEMENTS (item->send) && item->send[k] != 0; k++)
            ps_event_meet (events, item->send[k], clock);
          ps_follow_transfers (events, timed);
        }
      device->posted = FALSE;
      device->clock_ns = clock;
    }
  device->next = i;
}
