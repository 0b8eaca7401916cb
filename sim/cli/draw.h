/* draw.h - a timeline as text, one row per device as papers draw it. */
#ifndef PS_DRAW_H
#define PS_DRAW_H

#include <pipesim/timeline.h>

typedef struct
{
  guint max_width; /* characters of a row before it is drawn in proportion instead of in common cells */
  guint fold;      /* characters of a line, after which all rows go on in a block below; 0: never */
  gboolean colour; /* escape sequences of terminals, a colour per op kind */
} PsDrawStyle;

/* For standard output: coloured (unless NO_COLOR is set) and folded to its width if it is a terminal. */
void ps_draw_style_init (PsDrawStyle *style, guint max_width);

/* One row per device: an op's name where it starts, '=' behind it while it goes on, '.' while the device waits. Names
 * are kind and microbatch, with the stage behind a dot where devices hold several. A cell is the longest time that
 * divides every start and end and has room for a name; when rows would be longer than max_width it is one character,
 * names are cut to what fits, and very short ops may be missing. *cell_ns says what was taken. Free with g_free. */
char *ps_draw_timeline (const PsTimeline *timeline, const PsDrawStyle *style, gint64 *cell_ns);

#endif
