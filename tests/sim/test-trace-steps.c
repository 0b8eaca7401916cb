/* Tests how the steps of reading a trace grow with its iterations: a trace may have tens of thousands. */
#include "nsys-rig.h"

#include <pipesim/formats.h>

guint64 ps_n_steps;

/* Adds copies of the fixture's first iteration, a millisecond apart, to the two that are there. */
#define MORE                                                                                                           \
  "CREATE TEMP TABLE more AS WITH RECURSIVE n (i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < %u) "         \
  "SELECT i, i * 1000000 AS ns FROM n;"                                                                                \
  "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId) SELECT start + ns, end + ns, eventType, "  \
  "text, globalTid, textId FROM NVTX_EVENTS, more WHERE start < 1000000 AND eventType = 59 AND end IS NOT NULL;"       \
  "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start + ns, end + ns, eventClass, globalTid, correlationId + 100 * " \
  "i, nameId, returnValue, callchainId FROM CUPTI_ACTIVITY_KIND_RUNTIME, more WHERE start < 1000000;"                  \
  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start + ns, end + ns, deviceId, contextId, greenContextId, "          \
  "streamId, "                                                                                                         \
  "correlationId + 100 * i, globalPid, demangledName, shortName, mangledName FROM CUPTI_ACTIVITY_KIND_KERNEL, more "   \
  "WHERE start < 1000000"

/* Steps of reading n iterations. */
static guint64
count_steps (guint n)
{
  g_autofree char *changes = g_strdup_printf (MORE, n - 1);
  g_autofree char *path = make_export (changes);
  guint64 before = ps_n_steps;
  g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (path, &error));

  g_assert_cmpuint (timelines->len, ==, n);
  for (guint i = 0; i < n; i++)
    {
      const PsTimeline *timeline = g_ptr_array_index (timelines, i);

      g_assert_cmpint (timeline->iteration_ns, ==, 10800);
      g_assert_cmpuint (timeline->ops->len, ==, 8);
      g_assert_cmpuint (timeline->transfers->len, ==, 4);
      g_assert_cmpuint (timeline->waits->len, ==, 4);
    }
  remove_export (path);
  return ps_n_steps - before;
}

/* Twice the iterations take twice the steps, and a few for one more level of bisections. */
static void
test_linear (void)
{
  guint64 few = count_steps (200), many = count_steps (400);

  g_assert_cmpuint (few, >, 200);
  g_assert_cmpuint (10 * many, <, 23 * few);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/steps/nsys", test_linear);
  return g_test_run ();
}
