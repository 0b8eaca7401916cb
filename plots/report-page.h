/* report-page.h - a sweep as one HTML page that fetches nothing. */
#pragma once

#include <pipesim/formats.h>
#include <pipesim/questions.h>

/* Content of a page besides the results. */
typedef struct
{
  const char *title;    /* NULL: the page's own */
  const char *database; /* name of the source on the page */
  GPtrArray *timelines; /* of PsTimeline, possibly none */
  const char *about;    /* origin of the timelines, or why there are none */
} PsReportPage;

/* Makes the page: the best settings for each number of devices, time against memory, and the timelines. Only `where`
 * and `by` of the question count. Free with g_free. Errors: PS_ERROR_USAGE for unknown columns, PS_ERROR_INPUT if no
 * setting is left. */
char *ps_report_page (PsResults *results, const PsQuestion *question, const PsReportPage *page,
                      GError **error) G_GNUC_WARN_UNUSED_RESULT;
