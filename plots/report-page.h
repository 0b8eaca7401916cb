/* report-page.h - a sweep as one HTML page that fetches nothing. */
#ifndef PS_REPORT_PAGE_H
#define PS_REPORT_PAGE_H

#include <pipesim/formats.h>
#include <pipesim/questions.h>

G_BEGIN_DECLS

/* The page: the best settings for each number of devices, time against memory, and the timelines (of
 * PsTimeline, possibly none). `where` and `by` of the question count; database is what the page calls its source; title
 * NULL: the page's own. Free with g_free. Errors: PS_ERROR_USAGE for unknown columns, PS_ERROR_INPUT where no setting
 * is left. */
char *ps_report_page (PsResults *results, const char *database, const PsQuestion *question, const char *title,
                      GPtrArray *timelines, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
