/* events-due.h - which id is due next. The soonest stand in a list in order: most new times come near its end, so that
 * only a few others move. Where many are due, later ones lie in piles, each of times between two limits, as in
 * quicksort. Private to sim/simulate/events*.c. */
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
  gint64 from_ns; /* times of its entries, and of all that are further, are not before that */
  PsDueEntry *first;
} PsDuePile;

typedef struct
{
  PsDueEntry *first;   /* that was not taken yet; if any is left, it is in the list */
  PsDueEntry *near;    /* after the list */
  PsDueEntry *end;     /* after the furthest pile: an entry at G_MAXINT64 */
  gint64 *time_ns;     /* [n_ids + 1] when an id is due, not before its soonest entry; G_MAXINT64: it is not */
  PsDueEntry *entries; /* [n_entries] */
  PsDueEntry *last;    /* of these */
  guint n_entries;
  guint n_piles;
  PsDuePile piles[128]; /* the furthest first; when there are that many, lists stay longer */
} PsDue;

/* When room is made, a list of more entries keeps half as many, and the others become a pile. */
#define PS_DUE_NEAR 48

static inline PsDue *
ps_due_new (guint n_ids)
{
  PsDue *due = g_new0 (PsDue, 1);

  due->n_entries = 64;
  due->entries = g_new (PsDueEntry, due->n_entries);
  due->time_ns = g_new (gint64, n_ids + 1);
  for (guint i = 0; i <= n_ids; i++)
    due->time_ns[i] = G_MAXINT64;
  due->last = due->entries + due->n_entries - 1;
  due->first = due->near = due->end = due->entries;
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

static inline void
ps_due_cut (PsDue *due, PsDueEntry *first, gint64 from_ns)
{
  due->piles[due->n_piles++] = (PsDuePile){ from_ns, first };
  due->near = first;
}

/* Makes room at the end: of the entries that were taken, or by new ones. */
static G_NO_INLINE G_GNUC_UNUSED void
ps_due_make_room (PsDue *due)
{
  PsDueEntry *old = due->entries, *entries = old;
  guint n = (guint)(due->end - due->first);

  if (n > due->n_entries / 2)
    entries = g_new (PsDueEntry, due->n_entries *= 2);
  memmove (entries, due->first, (n + 1) * sizeof *entries);
  for (guint i = 0; i < due->n_piles; i++)
    due->piles[i].first = entries + (due->piles[i].first - due->first);
  due->near = entries + (due->near - due->first);
  due->end = entries + n;
  due->last = entries + due->n_entries - 1;
  due->first = due->entries = entries;
  if (entries != old)
    g_free (old);
  if (due->near - due->first > PS_DUE_NEAR && due->n_piles < G_N_ELEMENTS (due->piles))
    ps_due_cut (due, due->first + PS_DUE_NEAR / 2, due->first[PS_DUE_NEAR / 2].time_ns);
}

/* Puts an entry in order after those from `first` on. */
static inline void
ps_due_insert (PsDueEntry *first, PsDueEntry *place, PsDueEntry entry)
{
  for (; place > first && place[-1].time_ns > entry.time_ns; place--)
    *place = place[-1];
  *place = entry;
}

/* A free entry where one of that time belongs, `place` being free: the first entry of each pile that is further moves
 * to the end of that pile. */
static G_NO_INLINE G_GNUC_UNUSED PsDueEntry *
ps_due_pass_piles (PsDue *due, PsDueEntry *place, gint64 time_ns)
{
  guint i;

  for (i = 0; i < due->n_piles && time_ns < due->piles[i].from_ns; i++)
    {
      *place = *due->piles[i].first;
      place = due->piles[i].first++;
    }
  due->near += i == due->n_piles;
  return place;
}

static inline void
ps_due_push (PsDue *due, guint32 id, gint64 time_ns)
{
  PsDueEntry *place;

  if (due->end == due->last)
    ps_due_make_room (due);
  place = due->end++;
  *due->end = *place;
  if (due->n_piles == 0)
    due->near++;
  else
    place = ps_due_pass_piles (due, place, time_ns);
  if (place < due->near)
    ps_due_insert (due->first, place, (PsDueEntry){ time_ns, id });
  else
    *place = (PsDueEntry){ time_ns, id };
}

/* Moves the entries of the sooner half of a pile's times to its beginning, and makes the others a pile. FALSE: all are
 * at one time. */
static inline gboolean
ps_due_split (PsDue *due, PsDueEntry *first, PsDueEntry *end)
{
  gint64 least = first->time_ns, most = least;

  for (const PsDueEntry *entry = first; entry < end; entry++)
    {
      least = MIN (least, entry->time_ns);
      most = MAX (most, entry->time_ns);
    }
  if (least == most)
    return FALSE;
  least += (most - least) / 2;
  for (PsDueEntry *entry = first; entry < end; entry++)
    {
      PsDueEntry moved = *entry;

      *entry = *first;
      *first = moved;
      first += moved.time_ns <= least;
    }
  ps_due_cut (due, first, least + 1);
  return TRUE;
}

/* The list is empty: the nearest pile, or the soonest part of it, becomes the list. */
static G_NO_INLINE G_GNUC_UNUSED void
ps_due_refill (PsDue *due)
{
  PsDueEntry *first = due->first;

  due->n_piles--;
  due->near = due->n_piles > 0 ? due->piles[due->n_piles - 1].first : due->end;
  while (due->near - first > PS_DUE_NEAR / 2 && due->n_piles < G_N_ELEMENTS (due->piles)
         && ps_due_split (due, first, due->near))
    ;
  for (PsDueEntry *entry = first; entry < due->near; entry++)
    ps_due_insert (first, entry, *entry);
}

static inline guint32
ps_due_pop (PsDue *due)
{
  guint32 id = due->first++->id;

  if (due->first == due->near && due->n_piles > 0)
    ps_due_refill (due);
  return id;
}

/* An id is due at that time, whether or not it was due at another. If it is put off, its entry stays where it is until
 * it comes first: most ids are put off by little. If it is brought forward, it has one entry more. */
static inline void
ps_due_set (PsDue *due, guint32 id, gint64 time_ns)
{
  gint64 before_ns = due->time_ns[id];

  due->time_ns[id] = time_ns;
  if (time_ns < before_ns)
    ps_due_push (due, id, time_ns);
}

/* When an id is due; G_MAXINT64: it is not. */
static inline gint64
ps_due_time (const PsDue *due, guint32 id)
{
  return due->time_ns[id];
}

/* The first entry stands for a time before its id is due: moves it among the later ones, or takes it out. */
static inline void
ps_due_put_off (PsDue *due)
{
  PsDueEntry *entry = due->first, late = { due->time_ns[entry->id], entry->id };
  gint64 until_ns = due->n_piles > 0 ? due->piles[due->n_piles - 1].from_ns : G_MAXINT64;

  if (late.time_ns >= until_ns)
    {
      ps_due_pop (due);
      if (late.time_ns < G_MAXINT64)
        ps_due_push (due, late.id, late.time_ns);
      return;
    }
  for (; entry[1].time_ns < late.time_ns; entry++)
    entry[0] = entry[1];
  *entry = late;
}

/* The first time at which an id is due; G_MAXINT64: none is. */
static inline gint64
ps_due_first_ns (PsDue *due)
{
  while (due->first->time_ns < due->time_ns[due->first->id])
    ps_due_put_off (due);
  return due->first->time_ns;
}

/* Takes out an id that is due at the first time; FALSE: none is left there. */
static inline gboolean
ps_due_take (PsDue *due, gint64 first_ns, guint32 *id)
{
  while (due->first->time_ns == first_ns && due->time_ns[due->first->id] > first_ns)
    ps_due_put_off (due);
  if (due->first->time_ns != first_ns)
    return FALSE;
  *id = ps_due_pop (due);
  due->time_ns[*id] = G_MAXINT64;
  return TRUE;
}

static inline void
ps_due_clear (PsDue *due)
{
  for (const PsDueEntry *entry = due->first; entry < due->end; entry++)
    due->time_ns[entry->id] = G_MAXINT64;
  due->first = due->near = due->entries;
  *due->entries = *due->end;
  due->end = due->entries;
  due->n_piles = 0;
}
