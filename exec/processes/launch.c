/* launch.c - which process of a run am I, by the environment. */
#include "launch.h"

#include <pipesim/base.h>

#include <string.h>

#define DEFAULT_PORT 29500
#define FIRST_JOB_PORT 15000
#define N_JOB_PORTS 10000

/* The variables of one launcher. */
typedef struct
{
  const char *name;
  const char *rank;
  const char *n_ranks;
  const char *n_ranks_too; /* says the same where the other is missing; NULL: none */
  const char *n_local;     /* processes on this host; NULL: not said as a number */
  const char *sign;        /* variable without which the others mean nothing; NULL: none */
  const char *job;         /* what no two jobs of a host have in common; NULL: nobody knows */
  gboolean lists_nodes;    /* in variables of Slurm's */
} Launcher;

static const Launcher launchers[] = {
  { "torchrun", "RANK", "WORLD_SIZE", NULL, "LOCAL_WORLD_SIZE", NULL, NULL, FALSE },
  { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
    "PMIX_NAMESPACE", FALSE },
  { "MPICH", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS", "MPI_LOCALRANKID", NULL, FALSE },
  { "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL, "SLURM_STEP_ID", "SLURM_JOB_ID", TRUE },
};

void
ps_launch_clear (PsLaunch *launch)
{
  g_clear_pointer (&launch->host, g_free);
}

static gboolean
fail (GError **error, const char *name, const char *message)
{
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %s", name, message);
  return FALSE;
}

static gboolean
read_number (char **environment, const char *name, gint64 low, gint64 high, guint *number, GError **error)
{
  const char *text = g_environ_getenv (environment, name);
  gint64 value;

  if (text == NULL)
    return fail (error, name, "missing, though other variables say that a launcher has started this process");
  if (!ps_parse_integer (name, text, low, high, &value, error))
    return FALSE;
  *number = (guint)value;
  return TRUE;
}

static const Launcher *
find_launcher (char **environment)
{
  for (guint i = 0; i < G_N_ELEMENTS (launchers); i++)
    {
      const Launcher *launcher = &launchers[i];

      if (launcher->sign != NULL && g_environ_getenv (environment, launcher->sign) == NULL)
        continue;
      if (g_environ_getenv (environment, launcher->rank) != NULL
          || (launcher->n_ranks_too == NULL && g_environ_getenv (environment, launcher->n_ranks) != NULL))
        return launcher;
    }
  return NULL;
}

/* The text before the first of the characters, of which there is one; list goes behind it. */
static char *
take_until (const char **list, const char *characters)
{
  gsize length = strcspn (*list, characters);
  char *text = g_strndup (*list, length);

  *list += length;
  return text;
}

char *
ps_launch_first_host (const char *list)
{
  GString *host = g_string_new (NULL);

  while (*list != '\0' && *list != ',')
    {
      g_autofree char *part = take_until (&list, "[,");

      g_string_append (host, part);
      if (*list == '[')
        {
          g_autofree char *number = NULL;

          list++;
          number = take_until (&list, "-,]");
          g_string_append (host, number);
          list = strchr (list, ']');
          if (list == NULL || *number == '\0')
            {
              g_string_free (host, TRUE);
              return NULL;
            }
          list++;
        }
    }
  return g_string_free (host, host->len == 0);
}

/* Processes of this host; all where nobody says. */
static gboolean
read_n_local (const Launcher *launcher, char **environment, const PsLaunch *launch, guint *n_local, GError **error)
{
  *n_local = launch->n_ranks;
  return launcher->n_local == NULL || g_environ_getenv (environment, launcher->n_local) == NULL
         || read_number (environment, launcher->n_local, 1, launch->n_ranks, n_local, error);
}

static char *
slurm_host (char **environment)
{
  const char *list = g_environ_getenv (environment, "SLURM_STEP_NODELIST");

  if (list == NULL)
    list = g_environ_getenv (environment, "SLURM_JOB_NODELIST");
  if (list != NULL)
    return ps_launch_first_host (list);
  return g_strdup (g_environ_getenv (environment, "SLURM_LAUNCH_NODE_IPADDR"));
}

static gboolean
find_host (const Launcher *launcher, char **environment, PsLaunch *launch, GError **error)
{
  const char *host = g_environ_getenv (environment, "MASTER_ADDR");
  guint n_local;

  if (!read_n_local (launcher, environment, launch, &n_local, error))
    return FALSE;
  if (host != NULL)
    launch->host = g_strdup (host);
  else if (launcher->lists_nodes)
    launch->host = slurm_host (environment);
  else if (n_local == launch->n_ranks)
    launch->host = g_strdup ("127.0.0.1");
  if (launch->host == NULL)
    return fail (error, "MASTER_ADDR", "missing; the address of rank 0's host is needed");
  return *launch->host != '\0' || fail (error, "MASTER_ADDR", "'' is no address");
}

/* Jobs are numbered in a row where they have numbers. */
static guint
port_of_job (const char *job)
{
  char *end;
  guint64 number = g_ascii_strtoull (job, &end, 10);

  return FIRST_JOB_PORT + (guint)((*end == '\0' ? number : g_str_hash (job)) % N_JOB_PORTS);
}

static gboolean
find_port (const Launcher *launcher, char **environment, PsLaunch *launch, GError **error)
{
  const char *job = launcher->job != NULL ? g_environ_getenv (environment, launcher->job) : NULL;
  gboolean taken = g_strcmp0 (g_environ_getenv (environment, "TORCHELASTIC_USE_AGENT_STORE"), "True") == 0;
  guint port = job != NULL ? port_of_job (job) : DEFAULT_PORT;

  if (g_environ_getenv (environment, "MASTER_PORT") != NULL
      && !read_number (environment, "MASTER_PORT", 1, taken ? G_MAXUINT16 - 1 : G_MAXUINT16, &port, error))
    return FALSE;
  launch->port = (guint16)(taken ? port + 1 : port);
  return TRUE;
}

static gboolean
read_launch (const Launcher *launcher, char **environment, PsLaunch *launch, GError **error)
{
  const char *n_ranks = launcher->n_ranks;

  if (launcher->n_ranks_too != NULL && g_environ_getenv (environment, n_ranks) == NULL)
    n_ranks = launcher->n_ranks_too;
  launch->launcher = launcher->name;
  if (!read_number (environment, n_ranks, 1, PS_MAX_DEVICES, &launch->n_ranks, error)
      || !read_number (environment, launcher->rank, 0, PS_MAX_DEVICES - 1, &launch->rank, error))
    return FALSE;
  if (launch->rank >= launch->n_ranks)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u, with %s %u it is at most %u", launcher->rank, launch->rank,
                   n_ranks, launch->n_ranks, launch->n_ranks - 1);
      return FALSE;
    }
  if (launch->n_ranks == 1)
    return TRUE;
  return find_host (launcher, environment, launch, error) && find_port (launcher, environment, launch, error);
}

gboolean
ps_launch_read (char **environment, PsLaunch *launch, GError **error)
{
  const Launcher *launcher = find_launcher (environment);

  *launch = (PsLaunch){ .n_ranks = 1 };
  if (launcher == NULL || read_launch (launcher, environment, launch, error))
    return TRUE;
  ps_launch_clear (launch);
  return FALSE;
}
