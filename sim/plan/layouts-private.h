/* layouts-private.h - the space of layouts as a sweep in memory, cut into cells. Private to libpipesim. */
#pragma once

#include "sweep/sweep-private.h"

#include <pipesim/launch.h>
#include <pipesim/layouts.h>

/* The schedules of a cell, by their number of chunks. */
enum
{
  PS_LAYOUT_OWN,        /* all schedules, with their own numbers of chunks */
  PS_LAYOUT_CHUNKS = 1, /* a kind v >= this: schedules run with v chunks although their own number is another */
  PS_LAYOUT_KINDS = 9
};

/* The schedules of a kind for one layout, microbatch size and recomputation. */
typedef struct
{
  guint64 first;   /* point of the first schedule */
  guint kind;      /* PS_LAYOUT_OWN, or a number of chunks */
  gint64 floor_ns; /* no schedule of the cell is faster */
  gint64 alone_ns; /* nor is one without overlapped pairs */
} PsLayoutCell;

typedef struct
{
  const PsLayoutQuestion *question;
  char *profiles; /* names, as a spec has them; NULL: no measured costs */
  PsSweep *sweep;
  PsLayouts *layouts; /* not owned: takes the counts of settings that are not worth a prediction */
  GArray *cells;      /* PsLayoutCell, by floor_ns */
  GArray *fits;       /* PsLayout: all that were predicted and fit, in their order. Owned */
  gint64 last_ns;     /* step of the last of the best, 0 while there are too few */
  guint n_schedules;
  guint8 *takes;   /* [kind * n_schedules + schedule] whether a cell holds it */
  gboolean *pairs; /* [n_schedules] whether it overlaps F and B */
  PsModel *model;
  guint sequence; /* tokens */
} PsLayoutSpace;

/* Reads what the question names, and lists the cells. Errors: those of ps_layouts_find. */
gboolean ps_layout_space_open (PsLayoutSpace *space, const PsLayoutQuestion *question, GError **error);
void ps_layout_space_clear (PsLayoutSpace *space);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsLayoutSpace, ps_layout_space_clear)

static inline gboolean
ps_layout_space_takes (const PsLayoutSpace *space, const PsLayoutCell *cell, guint schedule)
{
  return space->takes[cell->kind * space->n_schedules + schedule];
}

/* Whether a setting that takes floor_ns or longer cannot be among the best. Schedules that are near the last of the
 * best are worth a prediction, too. */
static inline gboolean
ps_layout_space_is_outrun (const PsLayoutSpace *space, gint64 floor_ns)
{
  double factor = space->question->fold ? PS_LAYOUT_NEAR : 1;

  return space->last_ns > 0 && (double)floor_ns > factor * (double)space->last_ns;
}

/* The model of the question, or of its profiles, whose names `profiles` gets. Free with ps_model_free. Errors: those of
 * ps_layouts_find. */
PsModel *ps_layout_space_load_model (PsLayoutSpace *space, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Refuses names that would break a line of the spec. */
gboolean ps_layout_check_name (const char *option, const char *name, GError **error);

/* Schedules of a cell. */
guint ps_layout_space_count (const PsLayoutSpace *space, guint kind);
