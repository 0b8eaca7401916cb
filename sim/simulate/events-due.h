/* events-due.h - which id is due next, of few that are due at a time: a list in the order of time. Most new times come
 * near its end, so that only a few others move. Private to sim/simulate/events*.c. */
#pragma once

#include <glib.h>
#include <string.h>

typedef struct
{
  gint64 time_ns;
  guint32 id;
} PsDueEntry;

typedef struct
{
  PsDueEntry *first;   /* that was not taken yet */
  PsDueEntry *end;     /* an entry at G_MAXINT64 */
  gint64 *time_ns;     /* [n_ids + 1] when an id is due, not before its entry's time; G_MAXINT64: it has no entry */
  PsDueEntry *entries; /* [n_entries] */
  guint n_entries;
} PsDue;

static inline PsDue *
ps_due_new (guint n_ids)
{
  PsDue *due = g_new0 (PsDue, 1);

  due->n_entries = 64;
  due->entries = g_new (PsDueEntry, due->n_entries);
  due->time_ns = g_new (gint64, n_ids + 1);
  for (guint i = 0; i <= n_ids; i++)
    due->time_ns[i] = G_MAXINT64;
  due->first = due->end = due->entries;
  *due->end = (PsDueEntry){ G_MAXINT64, n_ids };
  return due;
}

static inline void
ps_due_free (PsDue *due)
{
  if (due == NULL)
    return;
  g_free (due->entries);
  g_free (due->time_ns);
  g_free (due);
}

/* Makes room at the end: of the entries that were taken, or by new ones. */
static inline void
ps_due_make_room (PsDue *due)
{
  guint n = (guint)(due->end - due->first);

  memmove (due->entries, due->first, (n + 1) * sizeof *due->entries);
  if (n > due->n_entries / 2)
    due->entries = g_renew (PsDueEntry, due->entries, due->n_entries *= 2);
  due->first = due->entries;
  due->end = due->first + n;
}

#define PS_DUE_NEAR 12

/* Makes room among many entries of later times, up to a free one. */
static inline PsDueEntry *
ps_due_move (PsDueEntry *first, PsDueEntry *entry, gint64 time_ns)
{
  PsDueEntry *end = entry;

  while (first < end)
    {
      PsDueEntry *middle = first + (end - first) / 2;

      if (middle->time_ns > time_ns)
        end = middle;
      else
        first = middle + 1;
    }
  memmove (end + 1, end, (gsize)(entry - end) * sizeof *end);
  return end;
}

/* Writes an entry where its place is: at a free one, or before it. */
static inline void
ps_due_write (PsDue *due, PsDueEntry *entry, guint32 id, gint64 time_ns)
{
  const PsDueEntry *near = entry - MIN (entry - due->first, PS_DUE_NEAR);

  for (; entry > near && entry[-1].time_ns > time_ns; entry--)
    *entry = entry[-1];
  if (entry == near && entry > due->first)
    entry = ps_due_move (due->first, entry, time_ns);
  *entry = (PsDueEntry){ time_ns, id };
}

/* An id is due at that time, whether or not it was due at another. If it is put off, its entry stays where it is until
 * it comes first: most ids are put off by little. */
static inline void
ps_due_set (PsDue *due, guint32 id, gint64 time_ns)
{
  gint64 before_ns = due->time_ns[id];
  PsDueEntry *entry = due->first;

  due->time_ns[id] = time_ns;
  if (before_ns == G_MAXINT64)
    {
      if (due->end == due->entries + due->n_entries - 1)
        ps_due_make_room (due);
      due->end++;
      due->end[0] = due->end[-1];
      ps_due_write (due, due->end - 1, id, time_ns);
    }
  else if (time_ns < before_ns)
    {
      while (entry->id != id)
        entry++;
      if (time_ns < entry->time_ns)
        ps_due_write (due, entry, id, time_ns);
    }
}

/* When an id is due; G_MAXINT64: it is not. */
static inline gint64
ps_due_time (const PsDue *due, guint32 id)
{
  return due->time_ns[id];
}

/* The first time at which an id is due; G_MAXINT64: none is. */
static inline gint64
ps_due_first_ns (PsDue *due)
{
  while (due->first->time_ns < due->time_ns[due->first->id])
    {
      PsDueEntry *entry = due->first;
      const PsDueEntry late = { due->time_ns[entry->id], entry->id };

      for (; entry[1].time_ns < late.time_ns; entry++)
        entry[0] = entry[1];
      *entry = late;
    }
  return due->first->time_ns;
}

/* Takes out the id of ps_due_first_ns. There must be one. */
static inline guint32
ps_due_take (PsDue *due)
{
  guint32 id = due->first++->id;

  due->time_ns[id] = G_MAXINT64;
  return id;
}

static inline void
ps_due_clear (PsDue *due)
{
  while (ps_due_first_ns (due) < G_MAXINT64)
    ps_due_take (due);
}
