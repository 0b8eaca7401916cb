/* events-links.h - which id is due next, and transfers that share links. Private to sim/simulate/events*.c. */
#pragma once

#include <pipesim/simulate.h>

#include <string.h>

/* A queue of ids by the time at which they are due, then by id: a list in order. Most new times come near its end, so
 * that only a few others move. */
typedef struct {
  gint64 time_ns;
  guint32 id;
} PsDue;

typedef struct {
  PsDue *list; /* from `first` to before `end`; an entry may stand for an earlier time than that of its id */
  guint first;
  guint end;
  guint size;
  gint64 *time_ns; /* [n_ids] when an id is due; G_MAXINT64: it is not */
} PsQueue;

static inline void ps_queue_init (PsQueue *queue, guint n_ids)
{
  *queue = (PsQueue){ .list = g_new (PsDue, 64), .size = 64, .time_ns = g_new (gint64, n_ids) };
  for (guint i = 0; i < n_ids; i++)
    queue->time_ns[i] = G_MAXINT64;
}

static inline void ps_queue_clear (PsQueue *queue)
{
  g_free (queue->list);
  g_free (queue->time_ns);
}

static inline void ps_queue_insert (PsQueue *queue, PsDue due)
{
  guint place;

  if (queue->end == queue->size) {
    queue->end -= queue->first;
    memmove (queue->list, queue->list + queue->first, queue->end * sizeof *queue->list);
    queue->first = 0;
    if (queue->end > queue->size / 2)
      queue->list = g_renew (PsDue, queue->list, queue->size *= 2);
  }
  for (place = queue->end++; place > queue->first; place--) {
    const PsDue *before = &queue->list[place - 1];

    if (before->time_ns < due.time_ns || (before->time_ns == due.time_ns && before->id <= due.id))
      break;
    queue->list[place] = *before;
  }
  queue->list[place] = due;
}

/* An id is due at that time, whether or not it was due at another. If it is put off, its entry stays where it is until
 * it comes first: most ids are put off by little. */
static inline void ps_queue_set (PsQueue *queue, guint32 id, gint64 time_ns)
{
  gint64 before_ns = queue->time_ns[id];

  queue->time_ns[id] = time_ns;
  if (time_ns < before_ns)
    ps_queue_insert (queue, (PsDue){ time_ns, id });
}

/* When an id is due; G_MAXINT64: it is not. */
static inline gint64 ps_queue_time (const PsQueue *queue, guint32 id)
{
  return queue->time_ns[id];
}

/* The first time at which an id is due; G_MAXINT64: none is. */
static inline gint64 ps_queue_first_ns (PsQueue *queue)
{
  while (queue->first < queue->end) {
    PsDue due = queue->list[queue->first];

    if (due.time_ns == queue->time_ns[due.id])
      return due.time_ns;
    queue->first++;
    if (queue->time_ns[due.id] < G_MAXINT64 && due.time_ns < queue->time_ns[due.id])
      ps_queue_insert (queue, (PsDue){ queue->time_ns[due.id], due.id });
  }
  return G_MAXINT64;
}

/* Takes out the first id, after ps_queue_first_ns has found it. */
static inline guint32 ps_queue_take (PsQueue *queue)
{
  guint32 id = queue->list[queue->first++].id;

  queue->time_ns[id] = G_MAXINT64;
  return id;
}

/* Transfers that share the links of a cluster. Their events are ids of the queue, from first_id on by message. */
typedef struct _PsLinks PsLinks;

PsLinks *ps_links_new (const PsProgram *program, const PsCluster *cluster, PsQueue *queue, guint32 first_id);
void ps_links_free (PsLinks *links);
void ps_links_begin (PsLinks *links);

/* Starts the transfer of a message, which takes duration_ns if it shares nothing; its next event is due. */
void ps_links_start (PsLinks *links, guint32 message, gint64 bytes, gint64 duration_ns, gint64 now_ns);

/* Takes its event. Returns TRUE when the transfer is over; else it has got through the latency and moves its bytes. */
gboolean ps_links_event (PsLinks *links, guint32 message, gint64 now_ns);

/* Finds new rates after the events of an instant, and when each transfer is over at its rate. */
void ps_links_settle (PsLinks *links, gint64 now_ns);
