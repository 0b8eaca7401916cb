/* draw.h - a timeline as text, one row per device as papers draw it. */
#pragma once

#include <pipesim/timeline.h>

typedef struct
{
  guint max_width; /* characters of a row before it is drawn in proportion instead of in common cells */
  guint fold;      /* characters of a line, after which all rows go on in a block below; 0: never */
  gboolean colour; /* escape sequences of terminals, a colour per op kind */
} PsDrawStyle;

/* For standard output: folded to the window (ps_window_columns), and on a terminal coloured unless NO_COLOR is set. */
void ps_draw_style_init (PsDrawStyle *style, guint max_width);

/* One row per device: an op's name where it starts, '=' after it while it goes on, '.' while the device waits. Names
 * are kind and microbatch; a dot and the stage follow where devices hold several. *cell_ns gets the time of a cell: the
 * longest that divides every start and end; a cell has room for a name. When rows would be longer than max_width a cell
 * is one character; then names are cut and very short ops may be missing. Free with g_free. */
char *ps_draw_timeline (const PsTimeline *timeline, const PsDrawStyle *style, gint64 *cell_ns);
