/* Tests of crew and processes: members of one process and of several, which are threads here and send each other
 * messages through pipes. */
#include "error-rig.h"
#include "run/crew.h"

#include "clock.h"

#include <pipesim/base.h>

#include <unistd.h>

#define PATIENCE_NS G_GINT64_CONSTANT (60000000000)
#define MAX_PROCESSES 3
#define MAX_MEMBERS 6

/* A process that is a thread. */
typedef struct {
  PsProcesses base;
  int from[MAX_PROCESSES][2]; /* a pipe for the messages of each other one: a length, and so many bytes */
  guint n_here;
  PsCrew *crew;
  void (*act) (PsCrew *crew, guint member, guint number, guint n_all);
} Station;

static Station stations[MAX_PROCESSES];

typedef struct {
  Station *station;
  guint member;
} Member;

static void station_send (PsProcesses *processes, guint to, gconstpointer bytes, gsize n_bytes)
{
  const int end = stations[to].from[processes->rank][1];

  g_assert_cmpint (write (end, &n_bytes, sizeof n_bytes), ==, sizeof n_bytes);
  g_assert_cmpint (write (end, bytes, n_bytes), ==, (gssize)n_bytes);
}

static void station_receive (PsProcesses *processes, guint from, gpointer bytes, gsize n_bytes, gint64 timeout_ns)
{
  const int end = ((Station *)processes)->from[from][0];
  gsize n;

  g_assert_cmpint (read (end, &n, sizeof n), ==, sizeof n);
  g_assert_cmpuint (n, ==, n_bytes);
  g_assert_cmpint (read (end, bytes, n_bytes), ==, (gssize)n_bytes);
}

static gpointer member_main (gpointer data)
{
  const Member *member = data;
  const Station *station = member->station;

  station->act (station->crew, member->member, station->base.rank * station->n_here + member->member,
                station->base.n_ranks * station->n_here);
  return NULL;
}

static gpointer station_main (gpointer data)
{
  Station *station = data;
  GThread *threads[MAX_MEMBERS];
  Member members[MAX_MEMBERS];

  station->crew = ps_crew_new (station->n_here, station->base.n_ranks > 1 ? &station->base : NULL, PATIENCE_NS);
  for (guint i = 0; i < station->n_here; i++) {
    members[i] = (Member){ .station = station, .member = i };
    threads[i] = g_thread_new ("member", member_main, &members[i]);
  }
  for (guint i = 0; i < station->n_here; i++)
    g_thread_join (threads[i]);
  ps_crew_free (station->crew);
  return NULL;
}

/* n_processes with n_here members each. */
static void run_crew (guint n_processes, guint n_here,
                      void (*act) (PsCrew *crew, guint member, guint number, guint n_all))
{
  GThread *threads[MAX_PROCESSES];

  for (guint i = 0; i < n_processes; i++) {
    stations[i] = (Station){
      .base = { .rank = i, .n_ranks = n_processes, .send = station_send, .receive = station_receive },
      .n_here = n_here,
      .act = act,
    };
    for (guint k = 0; k < n_processes; k++)
      g_assert_cmpint (pipe (stations[i].from[k]), ==, 0);
  }
  for (guint i = 0; i < n_processes; i++)
    threads[i] = g_thread_new ("process", station_main, &stations[i]);
  for (guint i = 0; i < n_processes; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < n_processes; i++)
    for (guint k = 0; k < n_processes; k++) {
      close (stations[i].from[k][0]);
      close (stations[i].from[k][1]);
    }
}

/* Every member alone, in one process, one each in several, and both. */
static void run_crews (void (*act) (PsCrew *crew, guint member, guint number, guint n_all))
{
  run_crew (1, 1, act);
  run_crew (1, 4, act);
  run_crew (3, 1, act);
  run_crew (2, 3, act);
}

/* Numbers of 1 to 40 members' rounds; the block sizes differ from round to round. */
static void exchange_numbers (PsCrew *crew, guint member, guint number, guint n_all)
{
  for (guint round = 0; round < 40; round++) {
    guint mine[3] = { number + round, number * 2, round }, all[3 * MAX_MEMBERS];
    guint n = round % 4;

    fine (ps_crew_exchange (crew, member, mine, n * sizeof (guint), all, &error));
    for (guint i = 0; i < n_all && n == 3; i++) {
      g_assert_cmpuint (all[3 * i], ==, i + round);
      g_assert_cmpuint (all[3 * i + 1], ==, 2 * i);
      g_assert_cmpuint (all[3 * i + 2], ==, round);
    }
  }
}

static void test_exchange (void)
{
  run_crews (exchange_numbers);
}

static gint n_come; /* atomic */

/* Whoever has met knows that all others have come to that meeting, and nobody to the one after the next. */
static void meet_often (PsCrew *crew, guint member, guint number, guint n_all)
{
  for (guint round = 1; round <= 30; round++) {
    gint64 before_ns = ps_clock_now (), moment_ns;

    g_atomic_int_inc (&n_come);
    g_assert_true (ps_crew_meet (crew, member, &moment_ns, NULL));
    guint n = (guint)g_atomic_int_get (&n_come);
    g_assert_cmpuint (n, >=, round * n_all);
    g_assert_cmpuint (n, <=, (round + 1) * n_all);
    g_assert_cmpint (moment_ns, >=, before_ns);
  }
}

static void test_meet (void)
{
  static const guint sizes[][2] = { { 1, 1 }, { 1, 4 }, { 3, 1 }, { 2, 3 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    g_atomic_int_set (&n_come, 0);
    run_crew (sizes[i][0], sizes[i][1], meet_often);
  }
}

/* The last member of a process fails, the others wait for it: all get its error. */
static void fail_last (PsCrew *crew, guint member, guint number, guint n_all)
{
  g_autoptr (GError) error = NULL;
  gint64 moment_ns;

  if (number == n_all - 1)
    ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_UNAVAILABLE, "out of ink"));
  refused (ps_crew_meet (crew, member, &moment_ns, &error), PS_ERROR_UNAVAILABLE, "out of ink");
  g_assert_false (ps_crew_check (crew, &error));
  g_assert_cmpstr (error->message, ==, "out of ink");
}

static void test_fail (void)
{
  run_crew (1, 1, fail_last);
  run_crew (1, 4, fail_last);
}

static void count (gpointer data)
{
  g_atomic_int_inc ((gint *)data);
}

static void test_watch (void)
{
  g_autoptr (PsCrew) crew = ps_crew_new (1, NULL, 0);
  gint before = 0, after = 0;

  ps_crew_on_failure (crew, count, &before);
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "first"));
  ps_crew_on_failure (crew, count, &after);
  g_assert_cmpint (before, ==, 1);
  g_assert_cmpint (after, ==, 1);
}

/* The first failure is the crew's. */
static void test_first_failure (void)
{
  g_autoptr (PsCrew) crew = ps_crew_new (1, NULL, 0);
  g_autoptr (GError) error = NULL;

  g_assert_true (ps_crew_check (crew, NULL));
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "first"));
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "second"));
  g_assert_false (ps_crew_check (crew, &error));
  g_assert_cmpstr (error->message, ==, "first");
}

/* Without other processes there is one answer to everything, and nothing to wait for. */
static void test_alone (void)
{
  g_assert_cmpuint (ps_processes_rank (NULL), ==, 0);
  g_assert_cmpuint (ps_processes_n_ranks (NULL), ==, 1);
  g_assert_cmpuint (ps_processes_local_rank (NULL), ==, 0);
  g_assert_cmpuint (ps_processes_n_local (NULL), ==, 1);
  g_assert_cmpint (ps_processes_clock_offset (NULL, 0), ==, 0);
  ps_processes_part (NULL, NULL);
}

/* The shortest round trip counts. */
static void test_clock_estimate (void)
{
  const gint64 sent[] = { 1000, 2000, 3000 }, there[] = { 2300, 3050, 4400 }, came[] = { 1500, 2100, 3900 };
  gint64 uncertainty_ns;

  g_assert_cmpint (ps_clock_estimate (sent, there, came, 3, &uncertainty_ns), ==, -1000);
  g_assert_cmpint (uncertainty_ns, ==, 50);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/crew/exchange", test_exchange);
  g_test_add_func ("/crew/meet", test_meet);
  g_test_add_func ("/crew/fail", test_fail);
  g_test_add_func ("/crew/watch", test_watch);
  g_test_add_func ("/crew/first-failure", test_first_failure);
  g_test_add_func ("/crew/alone", test_alone);
  g_test_add_func ("/crew/clock-estimate", test_clock_estimate);
  return g_test_run ();
}
