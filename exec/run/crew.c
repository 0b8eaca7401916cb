/* crew.c - the members of a process meet at a barrier; the last one to come then meets the other processes for all of
 * them, by messages to and from rank 0. */
#include "crew.h"

#include "clock.h"
#include "module.h"

#include <pthread.h>
#include <string.h>

/* Processes */

typedef gboolean (*JoinFunction) (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error);

/* Processes that MPI does not connect would all do the same, and write the same files. */
static gboolean check_alone (GError **error)
{
  static const char *const sizes[] = { "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    const char *size = g_getenv (sizes[i]);

    if (size == NULL || g_str_equal (size, "1"))
      continue;
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "%s: %s processes that MPI does not connect; start them with srun --mpi=pmix, or with the mpirun of "
        "the MPI that pipesim was built with",
        sizes[i], size);
  }
  return TRUE;
}

gboolean ps_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error)
{
  *processes = NULL;
  /* PMIx (Open MPI, srun --mpi=pmix) and PMI (MPICH, srun --mpi=pmi2) number the processes that they start. */
  if (g_getenv ("PMIX_RANK") != NULL || g_getenv ("PMI_RANK") != NULL) {
    JoinFunction join = (JoinFunction)ps_module_function ("processes of MPI", "mpi", "ps_mpi_processes_join", error);

    if (join == NULL || !join (processes, report, data, error))
      return FALSE;
  }
  return *processes != NULL || check_alone (error);
}

void ps_processes_part (PsProcesses *processes, const GError *error)
{
  if (processes != NULL && error != NULL)
    processes->fail (processes, error);
  else if (processes != NULL)
    ps_processes_exchange (processes, NULL, 0, NULL, 0);
}

/* Rank 0 names the rank that is late, so the others wait longer for rank 0. */
gint64 ps_processes_exchange (PsProcesses *processes, gconstpointer mine, gsize n_bytes, gpointer all,
                              gint64 timeout_ns)
{
  guint8 none = 0, *bytes = n_bytes > 0 ? all : &none;

  if (processes->rank > 0) {
    processes->send (processes, 0, n_bytes > 0 ? mine : &none, n_bytes);
    processes->receive (processes, 0, bytes, n_bytes * processes->n_ranks, 2 * timeout_ns);
    return ps_clock_now ();
  }
  if (n_bytes > 0)
    memcpy (bytes, mine, n_bytes);
  for (guint i = 1; i < processes->n_ranks; i++)
    processes->receive (processes, i, bytes + i * n_bytes, n_bytes, timeout_ns);
  const gint64 moment_ns = ps_clock_now ();
  for (guint i = 1; i < processes->n_ranks; i++)
    processes->send (processes, i, bytes, n_bytes * processes->n_ranks);
  return moment_ns;
}

/* The crew */

struct _PsCrew {
  guint n_here;
  PsProcesses *processes;
  gint64 timeout_ns;

  pthread_mutex_t lock; /* guards what follows, up to failure */
  pthread_cond_t open;
  guint n_waiting;
  guint round;
  gconstpointer *given; /* [n_here] the bytes that each member gives */
  guint8 *all;          /* of the latest round; the next one ends only after all members have read them */
  gint64 moment_ns;     /* when it was complete */
  GError *failure;      /* the first */

  pthread_mutex_t call_lock; /* held while failed is called */
  void (*failed) (gpointer data);
  gpointer failed_data;
};

PsCrew *ps_crew_new (guint n_here, PsProcesses *processes, gint64 timeout_ns)
{
  PsCrew *crew = g_new0 (PsCrew, 1);

  g_assert (n_here > 0);

  crew->n_here = n_here;
  crew->processes = processes;
  crew->timeout_ns = timeout_ns;
  crew->given = g_new0 (gconstpointer, n_here);
  pthread_mutex_init (&crew->lock, NULL);
  pthread_cond_init (&crew->open, NULL);
  pthread_mutex_init (&crew->call_lock, NULL);
  return crew;
}

void ps_crew_free (PsCrew *crew)
{
  if (crew == NULL)
    return;
  g_clear_error (&crew->failure);
  pthread_mutex_destroy (&crew->call_lock);
  pthread_cond_destroy (&crew->open);
  pthread_mutex_destroy (&crew->lock);
  g_free (crew->given);
  g_free (crew->all);
  g_free (crew);
}

gboolean ps_crew_check (PsCrew *crew, GError **error)
{
  pthread_mutex_lock (&crew->lock);
  gboolean fine = crew->failure == NULL;
  if (!fine && error != NULL)
    *error = g_error_copy (crew->failure);
  pthread_mutex_unlock (&crew->lock);
  return fine;
}

static void call_failed (PsCrew *crew)
{
  pthread_mutex_lock (&crew->call_lock);
  if (crew->failed != NULL)
    crew->failed (crew->failed_data);
  pthread_mutex_unlock (&crew->call_lock);
}

void ps_crew_fail (PsCrew *crew, GError *error)
{
  if (crew->processes != NULL)
    crew->processes->fail (crew->processes, error);
  pthread_mutex_lock (&crew->lock);
  if (crew->failure == NULL)
    crew->failure = g_steal_pointer (&error);
  pthread_cond_broadcast (&crew->open);
  pthread_mutex_unlock (&crew->lock);
  g_clear_error (&error);
  call_failed (crew);
}

void ps_crew_on_failure (PsCrew *crew, void (*failed) (gpointer data), gpointer data)
{
  pthread_mutex_lock (&crew->call_lock);
  crew->failed = failed;
  crew->failed_data = data;
  pthread_mutex_unlock (&crew->call_lock);
  if (failed != NULL && !ps_crew_check (crew, NULL))
    call_failed (crew);
}

/* Ends the round: all members here have come. Under the lock, which no member needs while others are waited for. */
static void complete_round (PsCrew *crew, gsize n_bytes)
{
  const gsize n = crew->n_here * n_bytes;
  g_autofree guint8 *here = g_malloc (MAX (n, 1));

  for (guint i = 0; i < crew->n_here && n_bytes > 0; i++)
    memcpy (here + i * n_bytes, crew->given[i], n_bytes);
  g_free (crew->all);
  crew->all = g_malloc (MAX (n * ps_processes_n_ranks (crew->processes), 1));
  if (crew->processes != NULL)
    crew->moment_ns = ps_processes_exchange (crew->processes, here, n, crew->all, crew->timeout_ns);
  else {
    memcpy (crew->all, here, n);
    crew->moment_ns = ps_clock_now ();
  }
  crew->n_waiting = 0;
  crew->round++;
  pthread_cond_broadcast (&crew->open);
}

/* A failure opens the barrier. */
static gboolean meet (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gint64 *moment_ns, GError **error)
{
  pthread_mutex_lock (&crew->lock);
  const guint round = crew->round;
  crew->given[member] = mine;
  if (++crew->n_waiting == crew->n_here)
    complete_round (crew, n_bytes);
  while (crew->round == round && crew->failure == NULL)
    pthread_cond_wait (&crew->open, &crew->lock);
  *moment_ns = crew->moment_ns;
  pthread_mutex_unlock (&crew->lock);
  return ps_crew_check (crew, error);
}

gboolean ps_crew_meet (PsCrew *crew, guint member, gint64 *moment_ns, GError **error)
{
  return meet (crew, member, NULL, 0, moment_ns, error);
}

gboolean ps_crew_exchange (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  gint64 moment_ns;

  if (!meet (crew, member, mine, n_bytes, &moment_ns, error))
    return FALSE;
  if (n_bytes > 0)
    memcpy (all, crew->all, ps_processes_n_ranks (crew->processes) * crew->n_here * n_bytes);
  return TRUE;
}

gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error)
{
  const PsDeviceClass *class = device->class;
  g_autofree guint64 *sizes = g_new (guint64, n_members);
  g_autofree guint8 *mine = NULL, *all = NULL;
  g_autoptr (GBytes) own = NULL;
  gsize n_bytes, longest = 0;

  if (class->choices == NULL)
    return TRUE;
  own = class->choices (device);
  gconstpointer bytes = g_bytes_get_data (own, &n_bytes);
  if (!ps_crew_exchange (crew, member, &(guint64){ n_bytes }, sizeof *sizes, sizes, error))
    return FALSE;
  for (guint i = 0; i < n_members; i++)
    longest = MAX (longest, sizes[i]);
  mine = g_malloc0 (MAX (longest, 1));
  all = g_malloc (MAX (longest * n_members, 1));
  if (n_bytes > 0)
    memcpy (mine, bytes, n_bytes);
  gboolean done = ps_crew_exchange (crew, member, mine, longest, all, error);
  /* The first member's last, because a later adoption counts. */
  for (guint i = n_members; done && i-- > 0;) {
    g_autoptr (GBytes) choices = g_bytes_new (all + i * longest, sizes[i]);

    done = class->adopt_choices (device, choices, error);
  }
  return done;
}
