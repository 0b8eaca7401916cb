/* timeline-text.h - a timeline as text for a terminal: a row per device, a letter or a coloured cell per piece of time.
 */
#pragma once

#include <pipesim/timeline.h>

/* Draws n = 1 or 2 timelines, one above the other, on one time axis, in lines of at most `columns` letters (40 or
 * more). A cell shows the op that fills most of it; an op with room for it carries the number of its microbatch, and
 * the letter of its slice where there are several.
 *
 * plain: ASCII only. An op is its kind, its number and '-' to its end; a pair is P and the number of its F. The chunks
 * of a device after its first have small letters. Else an op is a box in its kind's colour, later chunks in another
 * shade; the escape codes set letters and background, so a dark and a light terminal look alike. Free with g_free. */
char *ps_timeline_to_text (PsTimeline *const *timelines, guint n, guint columns, gboolean plain);
