/* page.h - parts of pages that fetch nothing: tables, timelines to enlarge, and the page around them. */
#pragma once

#include <pipesim/option.h>

/* The table as HTML. Free with g_free. */
char *ps_page_table (const PsTable *table, const char *id);

/* Heading, origin, choice, pictures and data of timelines (of PsTimeline, possibly none). about: where they come from.
 * Errors: those of ps_gnuplot_draw. Free with g_free. */
char *ps_page_timelines (const GPtrArray *timelines, const char *about, GError **error);

/* The whole page. note and body are HTML. Free with g_free. */
char *ps_page (const char *title, const char *note, const char *body);
