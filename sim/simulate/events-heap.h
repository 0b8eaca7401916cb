/* events-heap.h - which id is due next: a binary heap of times by id, in which an id may be put off or brought forward.
 * Private to sim/events*.c. */
#pragma once

#include <glib.h>

typedef struct
{
  gint64 time_ns;
  guint32 id;
} PsHeapEntry;

typedef struct
{
  guint n;
  PsHeapEntry *entries; /* [n] the first has the least time; G_MAXINT64: the heap is empty */
  guint32 *place;       /* [n_ids] 1 + place in entries; 0: not in the heap */
} PsHeap;

static inline PsHeap *
ps_heap_new (guint n_ids)
{
  PsHeap *heap = g_new0 (PsHeap, 1);

  heap->entries = g_new (PsHeapEntry, n_ids);
  heap->entries[0].time_ns = G_MAXINT64;
  heap->place = g_new0 (guint32, n_ids);
  return heap;
}

static inline void
ps_heap_free (PsHeap *heap)
{
  if (heap == NULL)
    return;
  g_free (heap->entries);
  g_free (heap->place);
  g_free (heap);
}

static inline void
ps_heap_put (PsHeap *heap, guint place, PsHeapEntry entry)
{
  heap->entries[place] = entry;
  heap->place[entry.id] = place + 1;
}

static inline void
ps_heap_rise (PsHeap *heap, guint place, PsHeapEntry entry)
{
  for (; place > 0 && entry.time_ns < heap->entries[(place - 1) / 2].time_ns; place = (place - 1) / 2)
    ps_heap_put (heap, place, heap->entries[(place - 1) / 2]);
  ps_heap_put (heap, place, entry);
}

static inline void
ps_heap_sink (PsHeap *heap, guint place, PsHeapEntry entry)
{
  for (guint child = 2 * place + 1; child < heap->n; child = 2 * place + 1)
    {
      child += child + 1 < heap->n && heap->entries[child + 1].time_ns < heap->entries[child].time_ns;
      if (entry.time_ns <= heap->entries[child].time_ns)
        break;
      ps_heap_put (heap, place, heap->entries[child]);
      place = child;
    }
  ps_heap_put (heap, place, entry);
}

/* Puts an id into the heap, or changes its time if it is in the heap already. */
static inline void
ps_heap_set (PsHeap *heap, guint32 id, gint64 time_ns)
{
  PsHeapEntry entry = { time_ns, id };
  guint place = heap->place[id];

  if (place == 0)
    ps_heap_rise (heap, heap->n++, entry);
  else if (time_ns < heap->entries[place - 1].time_ns)
    ps_heap_rise (heap, place - 1, entry);
  else
    ps_heap_sink (heap, place - 1, entry);
}

/* Takes out the id of the least time. The heap must not be empty. */
static inline guint32
ps_heap_pop (PsHeap *heap)
{
  guint32 id = heap->entries[0].id;
  PsHeapEntry last = heap->entries[--heap->n];

  heap->place[id] = 0;
  if (heap->n > 0)
    ps_heap_sink (heap, 0, last);
  else
    heap->entries[0].time_ns = G_MAXINT64;
  return id;
}

static inline void
ps_heap_clear (PsHeap *heap)
{
  while (heap->n > 0)
    ps_heap_pop (heap);
}
