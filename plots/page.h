/* page.h - parts of pages that fetch nothing: tables, timelines to zoom, and the page around them. */
#pragma once

#include <pipesim/option.h>

/* JSON for inside a page. A < occurs only in strings; it is escaped, so that it cannot end the script. Free with
 * g_free. */
char *ps_page_embed (const char *json);

/* The table as HTML. Free with g_free. */
char *ps_page_table (const PsTable *table, const char *id);

/* Heading, origin, choice and canvas of timelines (of PsTimeline, possibly none), for the body. about: where they come
 * from. Free with g_free. */
char *ps_page_timelines (const GPtrArray *timelines, const char *about);

/* The whole page. note and body are HTML; points is JSON for the picture of a sweep, or "null". timelines are the data
 * of ps_page_timelines. Free with g_free. */
char *ps_page (const char *title, const char *note, const char *body, const char *points, const GPtrArray *timelines);
