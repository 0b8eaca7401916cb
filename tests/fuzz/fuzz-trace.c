/* fuzz-trace.c - Chrome traces and PyTorch profiler traces, packed ones too. */
#include "fuzz.h"

static int load_packed (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_load (fuzz_file (data, size), &error);

  fuzz_check_error (timeline != NULL, &error);
  return 0;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  PsTraceFile files[] = { { "rank0.json", text, strlen (text) }, { "rank1.json", text, strlen (text) } };

  if (size > 0 && *data == 0x1f)
    return load_packed (data, size);
  /* As the only file, then as one of two. */
  for (guint n = 2; n > 0; n--) {
    GPtrArray *timelines = ps_timelines_parse ("fuzz", files, n, &error);

    fuzz_check_error (timelines != NULL, &error);
    if (timelines == NULL)
      continue;
    g_autoptr (PsTimeline) timeline = ps_timelines_median (timelines);
    fuzz_check_timeline (timeline);
  }
  return 0;
}
