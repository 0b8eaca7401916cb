/* Tests of crew: members of one process and of several, which are threads here with a rendezvous each. */
#include "processes/crew.h"

#include "clock.h"
#include "port.h"

#include <pipesim/base.h>

#include <netinet/in.h>
#include <sys/socket.h>

#define PATIENCE_NS G_GINT64_CONSTANT (60000000000)
#define MAX_MEMBERS 6

typedef struct
{
  PsRendezvous *others;
  PsCrew *crew;
  guint n_here, n_all, first;
  void (*act) (PsCrew *crew, guint member, guint number, guint n_all);
} Process;

typedef struct
{
  Process *process;
  guint member;
} Member;

static gpointer
member_main (gpointer data)
{
  const Member *member = data;
  const Process *process = member->process;

  process->act (process->crew, member->member, process->first + member->member, process->n_all);
  return NULL;
}

static gpointer
process_main (gpointer data)
{
  Process *process = data;
  GThread *threads[MAX_MEMBERS];
  Member members[MAX_MEMBERS];

  process->crew = ps_crew_new (process->n_here, process->others, PATIENCE_NS);
  for (guint i = 0; i < process->n_here; i++)
    {
      members[i] = (Member){ .process = process, .member = i };
      threads[i] = g_thread_new ("member", member_main, &members[i]);
    }
  for (guint i = 0; i < process->n_here; i++)
    g_thread_join (threads[i]);
  ps_crew_free (process->crew);
  return NULL;
}

typedef struct
{
  Process process;
  PsRendezvousSetting setting;
} Station;

static gpointer
station_main (gpointer data)
{
  Station *station = data;

  station->process.others = ps_rendezvous_join (&station->setting, NULL);
  g_assert_nonnull (station->process.others);
  process_main (&station->process);
  ps_rendezvous_leave (station->process.others);
  return NULL;
}

/* n_processes with n_here members each. */
static void
run_crew (guint n_processes, guint n_here, void (*act) (PsCrew *crew, guint member, guint number, guint n_all))
{
  g_autofree Station *stations = g_new0 (Station, n_processes);
  g_autofree GThread **threads = g_new0 (GThread *, n_processes);
  guint16 port = n_processes > 1 ? free_port () : 0;

  for (guint i = 0; i < n_processes; i++)
    {
      stations[i].process
          = (Process){ .n_here = n_here, .n_all = n_processes * n_here, .first = i * n_here, .act = act };
      stations[i].setting = (PsRendezvousSetting){ .rank = i,
                                                   .n_ranks = n_processes,
                                                   .host = "127.0.0.1",
                                                   .port = port,
                                                   .join_ns = PATIENCE_NS,
                                                   .silence_ns = PATIENCE_NS };
      if (n_processes > 1)
        threads[i] = g_thread_new ("process", station_main, &stations[i]);
      else
        process_main (&stations[i].process);
    }
  for (guint i = 0; i < n_processes && n_processes > 1; i++)
    g_thread_join (threads[i]);
}

/* Every member alone, in one process, one each in several, and both. */
static void
run_crews (void (*act) (PsCrew *crew, guint member, guint number, guint n_all))
{
  run_crew (1, 1, act);
  run_crew (1, 4, act);
  run_crew (3, 1, act);
  run_crew (2, 3, act);
}

/* Numbers of 1 to 40 members' rounds; the block sizes differ from round to round. */
static void
exchange_numbers (PsCrew *crew, guint member, guint number, guint n_all)
{
  for (guint round = 0; round < 40; round++)
    {
      guint mine[3] = { number + round, number * 2, round }, all[3 * MAX_MEMBERS];
      guint n = round % 4;
      g_autoptr (GError) error = NULL;

      g_assert_true (ps_crew_exchange (crew, member, mine, n * sizeof (guint), all, &error));
      g_assert_no_error (error);
      for (guint i = 0; i < n_all && n == 3; i++)
        {
          g_assert_cmpuint (all[3 * i], ==, i + round);
          g_assert_cmpuint (all[3 * i + 1], ==, 2 * i);
          g_assert_cmpuint (all[3 * i + 2], ==, round);
        }
    }
}

static void
test_exchange (void)
{
  run_crews (exchange_numbers);
}

static gint n_come; /* atomic */

/* Whoever has met knows that all others have come to that meeting, and nobody to the one after the next. */
static void
meet_often (PsCrew *crew, guint member, guint number, guint n_all)
{
  for (guint round = 1; round <= 30; round++)
    {
      gint64 before_ns = ps_clock_now (), moment_ns;
      guint n;

      g_atomic_int_inc (&n_come);
      g_assert_true (ps_crew_meet (crew, member, &moment_ns, NULL));
      n = (guint)g_atomic_int_get (&n_come);
      g_assert_cmpuint (n, >=, round * n_all);
      g_assert_cmpuint (n, <=, (round + 1) * n_all);
      g_assert_cmpint (moment_ns, >=, before_ns);
    }
}

static void
test_meet (void)
{
  static const guint sizes[][2] = { { 1, 1 }, { 1, 4 }, { 3, 1 }, { 2, 3 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_atomic_int_set (&n_come, 0);
      run_crew (sizes[i][0], sizes[i][1], meet_often);
    }
}

/* The last member fails, the others wait for it: all get its error, which names its process where there are several. */
static void
fail_last (PsCrew *crew, guint member, guint number, guint n_all)
{
  g_autoptr (GError) error = NULL;
  gint64 moment_ns;

  if (number == n_all - 1)
    ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_UNAVAILABLE, "out of ink"));
  g_assert_false (ps_crew_meet (crew, member, &moment_ns, &error));
  g_clear_error (&error);
  g_assert_false (ps_crew_check (crew, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_true (g_str_has_suffix (error->message, "out of ink"));
  g_assert_cmpint (g_str_has_prefix (error->message, "rank "), ==, n_all != 1 && n_all != 4);
}

static void
test_fail (void)
{
  run_crews (fail_last);
}

static void
count (gpointer data)
{
  g_atomic_int_inc ((gint *)data);
}

static void
test_watch (void)
{
  g_autoptr (PsCrew) crew = ps_crew_new (1, NULL, 0);
  gint before = 0, after = 0;

  ps_crew_watch (crew, count, &before);
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "first"));
  ps_crew_watch (crew, count, &after);
  g_assert_cmpint (before, ==, 1);
  g_assert_cmpint (after, ==, 1);
}

/* The first failure is the crew's. */
static void
test_first_failure (void)
{
  g_autoptr (PsCrew) crew = ps_crew_new (1, NULL, 0);
  g_autoptr (GError) error = NULL;

  g_assert_true (ps_crew_check (crew, NULL));
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "first"));
  ps_crew_fail (crew, g_error_new (PS_ERROR, PS_ERROR_IO, "second"));
  g_assert_false (ps_crew_check (crew, &error));
  g_assert_cmpstr (error->message, ==, "first");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/crew/exchange", test_exchange);
  g_test_add_func ("/crew/meet", test_meet);
  g_test_add_func ("/crew/fail", test_fail);
  g_test_add_func ("/crew/watch", test_watch);
  g_test_add_func ("/crew/first-failure", test_first_failure);
  return g_test_run ();
}
