/* fuzz-timeline.c - the native timeline file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_parse_json ("fuzz", (const char *)data, (gssize)size, &error);
  g_autoptr (PsTimeline) again = NULL;
  g_autofree char *json = NULL, *json_again = NULL, *trace = NULL;
  g_auto (PsMetrics) metrics = { 0 };

  fuzz_check_error (timeline != NULL, &error);
  if (timeline == NULL)
    return 0;
  json = ps_timeline_to_json (timeline);
  again = ps_timeline_parse_json ("again", json, -1, &error);
  g_assert_no_error (error);
  json_again = ps_timeline_to_json (again);
  g_assert_cmpstr (json, ==, json_again);
  trace = ps_timeline_to_chrome_trace (timeline);
  ps_metrics_from_timeline (timeline, &metrics);
  if (ps_timeline_check ("fuzz", timeline, NULL))
    fuzz_observe (timeline);
  return 0;
}
