/* draw.h - a timeline as text, one row per device as papers draw it. */
#ifndef PS_DRAW_H
#define PS_DRAW_H

#include <pipesim/timeline.h>

/* One row per device: an op's name where it starts, '=' behind it while it goes on, '.' while the device waits. Names
 * are kind and microbatch, with the stage behind a dot where devices hold several. A cell is the longest time that
 * divides every start and end and has room for a name; when rows would be longer than max_width it is one character,
 * names are cut to what fits, and very short ops may be missing. *cell_ns says what was taken. Free with g_free. */
char *ps_draw_timeline (const PsTimeline *timeline, guint max_width, gint64 *cell_ns);

#endif
