/* timeline-rig.h - timelines that are written and read back. */
#pragma once

#include "error-rig.h"

#include <pipesim/timeline.h>

static inline void
check_round_trip (const char *text)
{
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_parse_json ("text", text, -1, &error));
  g_autofree char *again = ps_timeline_to_json (timeline);

  g_assert_cmpstr (again, ==, text);
}
