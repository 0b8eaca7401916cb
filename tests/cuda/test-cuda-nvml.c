/* Tests of cuda-nvml.h against a library that answers what is known here; with the argument "absent", without one. */
#include "train/cuda/cuda-nvml.h"

#include <gmodule.h>

#define BUS_ID "0000:07:00.0"

static void test_read (void)
{
  PsCondition condition;

  ps_cuda_nvml_read (BUS_ID, &condition);
  g_assert_cmpint (condition.clock_mhz, ==, 1980);
  g_assert_cmpint (condition.memory_clock_mhz, ==, 3201);
  g_assert_cmpint (condition.temperature_c, ==, 55);
  g_assert_cmpint (condition.power_mw, ==, 420500);
  g_assert_cmpuint (condition.throttle, ==, PS_THROTTLE_KNOWN);
}

/* Bits by the NVML API reference: 1 idle, 2 application clocks, 4 software power cap, 8 hardware slow-down, 10 sync
 * boost, 20 software and 40 hardware thermal slow-down, 80 power brake, all in hexadecimal. */
static void test_reasons (void)
{
  static const struct {
    const char *mask, *words;
  } rows[] = { { "0", "" },          { "1", "" },         { "2", "setting" },    { "4", "power" },
               { "8", "hardware" },  { "10", "setting" }, { "20", "heat" },      { "48", "heat hardware" },
               { "88", "hardware" }, { "100", "" },       { "24", "power heat" } };
  PsCondition condition;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_setenv ("FAKE_NVML_REASONS", rows[i].mask, TRUE);
    ps_cuda_nvml_read (BUS_ID, &condition);
    g_autofree char *words = ps_throttle_to_text (condition.throttle);
    g_assert_cmpstr (words, ==, rows[i].words);
  }
  g_unsetenv ("FAKE_NVML_REASONS");
}

/* Every reading is of its moment. */
static void test_clocks (void)
{
  static const gint64 expected[] = { 1980, 1755, 1200, 1200 };
  PsCondition condition;

  g_setenv ("FAKE_NVML_CLOCKS", "1980 1755 1200", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++) {
    ps_cuda_nvml_read (BUS_ID, &condition);
    g_assert_cmpint (condition.clock_mhz, ==, expected[i]);
  }
}

/* What can't be told stays not known; so does all of another GPU. */
static void test_mute (void)
{
  PsCondition condition;

  g_setenv ("FAKE_NVML_MUTE", "1", TRUE);
  ps_cuda_nvml_read (BUS_ID, &condition);
  g_unsetenv ("FAKE_NVML_MUTE");
  g_assert_cmpint (condition.clock_mhz, ==, 1980);
  g_assert_cmpint (condition.temperature_c, ==, 0);
  g_assert_cmpint (condition.power_mw, ==, 0);
  g_assert_cmpuint (condition.throttle, ==, 0);
  ps_cuda_nvml_read ("0000:08:00.0", &condition);
  g_assert_cmpint (condition.clock_mhz, ==, 0);
}

static void test_links (void)
{
  g_autofree char *links = ps_cuda_nvml_links (BUS_ID), *other = ps_cuda_nvml_links ("0000:08:00.0");

  g_assert_cmpstr (links, ==, "0000:3b:00.0*2,switch*1");
  g_assert_cmpstr (other, ==, "");
}

static void test_absent (void)
{
  PsCondition condition = { 1, 2, 3, 4, 5 };
  GModule *module = g_module_open ("libnvidia-ml.so.1", G_MODULE_BIND_LAZY);

  if (module != NULL) {
    g_module_close (module);
    g_test_skip ("this machine has the library");
    return;
  }
  ps_cuda_nvml_read (BUS_ID, &condition);
  g_assert_cmpint (condition.clock_mhz, ==, 0);
  g_assert_cmpint (condition.power_mw, ==, 0);
  g_assert_cmpuint (condition.throttle, ==, 0);
  g_autofree char *links = ps_cuda_nvml_links (BUS_ID);
  g_assert_cmpstr (links, ==, "");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (argc > 1) {
    g_test_add_func ("/cuda-nvml/absent", test_absent);
    return g_test_run ();
  }
  g_test_add_func ("/cuda-nvml/read", test_read);
  g_test_add_func ("/cuda-nvml/reasons", test_reasons);
  g_test_add_func ("/cuda-nvml/mute", test_mute);
  g_test_add_func ("/cuda-nvml/clocks", test_clocks);
  g_test_add_func ("/cuda-nvml/links", test_links);
  return g_test_run ();
}
