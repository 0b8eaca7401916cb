/* Tests of conditions.h: which readings count, and that reading ends. How long anything takes decides nothing. */
#include "train/conditions.h"

#include "clock.h"

/* Readings of device 0 are 2000, 1990, 1980, ... MHz, those of others 1000 MHz; what else there is to know begins with
 * the third round. */
typedef struct {
  PsDevice base;
  guint index;
  guint n_sharing;
  gint n_readings; /* atomic */
} Fake;

static void fake_condition (PsDevice *device, PsCondition *condition)
{
  Fake *fake = (Fake *)device;
  gint n = g_atomic_int_add (&fake->n_readings, 1);

  *condition = (PsCondition){ .clock_mhz = fake->index == 0 ? 2000 - 10 * n : 1000 };
  if (n >= 2)
    *condition = (PsCondition){ .clock_mhz = condition->clock_mhz,
                                .power_mw = 700,
                                .throttle = PS_THROTTLE_KNOWN | (n == 2 ? PS_THROTTLE_HEAT : PS_THROTTLE_POWER) };
}

static guint fake_sharing (PsDevice *device)
{
  return ((Fake *)device)->n_sharing;
}

static const PsDeviceClass fake_class = { .name = "fake", .condition = fake_condition, .sharing = fake_sharing };
static const PsDeviceClass mute_class = { .name = "mute" };

static PsConditions *read_rounds (Fake *a, Fake *b, gint n)
{
  PsDevice *const devices[] = { &a->base, &b->base };
  PsConditions *conditions = ps_conditions_new (devices, 2);

  while (g_atomic_int_get (&a->n_readings) < n)
    g_usleep (1000);
  return conditions;
}

/* From the first reading on there is one; the median of 2000, 1990, ... lies between the first and the last. */
static void test_median (void)
{
  Fake a = { { &fake_class }, 0, 1, 0 }, b = { { &fake_class }, 1, 1, 0 };
  g_autoptr (PsConditions) conditions = read_rounds (&a, &b, 5);
  PsCondition all, first, other, last;

  ps_conditions_median (conditions, 0, 0, G_MAXINT64, &all);
  g_assert_cmpint (all.clock_mhz, <=, 1980);
  g_assert_cmpint (all.clock_mhz, >=, 2000 - 10 * (a.n_readings - 1) / 2 - 10);
  g_assert_cmpint (all.power_mw, ==, 700);
  g_assert_cmpint (all.temperature_c, ==, 0);
  g_assert_cmpuint (all.throttle & PS_THROTTLE_HEAT, ==, PS_THROTTLE_HEAT);
  ps_conditions_median (conditions, 1, 0, G_MAXINT64, &other);
  g_assert_cmpint (other.clock_mhz, ==, 1000);
  /* Before all readings the first one counts, and at the end that which holds then. */
  ps_conditions_median (conditions, 0, 0, 1, &first);
  g_assert_cmpint (first.clock_mhz, ==, 2000);
  g_assert_cmpuint (first.throttle, ==, 0);
  ps_conditions_median (conditions, 0, G_MAXINT64, G_MAXINT64, &last);
  g_assert_cmpint (last.clock_mhz, <=, 1960);
  ps_conditions_median (NULL, 0, 0, G_MAXINT64, &last);
  g_assert_cmpint (last.clock_mhz, ==, 0);
}

/* Devices that share their accelerator are read as one. */
static void test_sharing (void)
{
  Fake a = { { &fake_class }, 0, 2, 0 }, b = { { &fake_class }, 1, 2, 0 };
  g_autoptr (PsConditions) conditions = read_rounds (&a, &b, 3);
  PsCondition second;

  ps_conditions_median (conditions, 1, 0, 1, &second);
  g_assert_cmpint (second.clock_mhz, ==, 2000);
  g_assert_cmpint (b.n_readings, ==, 0);
}

/* Freed, nothing reads any more. */
static void test_end (void)
{
  Fake a = { { &fake_class }, 0, 1, 0 }, b = { { &fake_class }, 1, 1, 0 };
  PsDevice mute = { &mute_class };
  PsDevice *const mutes[] = { &mute };

  ps_conditions_free (read_rounds (&a, &b, 2));
  gint n = a.n_readings;
  g_usleep (50000);
  g_assert_cmpint (a.n_readings, ==, n);
  g_assert_null (ps_conditions_new (mutes, 1));
  ps_conditions_free (NULL);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/conditions/median", test_median);
  g_test_add_func ("/conditions/sharing", test_sharing);
  g_test_add_func ("/conditions/end", test_end);
  return g_test_run ();
}
