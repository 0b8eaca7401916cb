/* mpi-loop.c - the thread that talks to MPI. */
#include "mpi-engine-private.h"

#include <pipesim/device.h>

#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define RESUMED_NS G_GINT64_CONSTANT (4000000000) /* for the launcher to end a process that was stopped */
#define BLAME_NS G_GINT64_CONSTANT (2000000000)   /* for the launcher to end all processes */
#define ANSWER_NS G_GINT64_CONSTANT (1000000000)  /* for ranks that are asked whether they live */
#define ASK_US 100                                /* between two looks for their answers */
#define ABORT_S 10                                /* for the last calls of MPI */

static PsMpiEngine *const engine = &ps_mpi_engine;

static void
wake_clients (void)
{
  for (guint i = 0; i < engine->clients->len; i++)
    {
      PsMpiClient *client = g_ptr_array_index (engine->clients, i);

      client->wake (client->data);
    }
}

static gboolean
start_mpi (GError **error)
{
  int provided, found = 0, *greatest = NULL;

  if (!ps_mpi_check ("MPI_Init_thread", MPI_Init_thread (NULL, NULL, MPI_THREAD_SERIALIZED, &provided), error)
      || !ps_mpi_check ("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN), error))
    return FALSE;
  MPI_Comm_rank (MPI_COMM_WORLD, &engine->rank);
  MPI_Comm_size (MPI_COMM_WORLD, &engine->n_ranks);
  engine->shares_calls = provided >= MPI_THREAD_SERIALIZED;
  engine->n_cores = ps_count_cores ();
  engine->answered = g_new0 (guint8, engine->n_ranks);
  if (!ps_mpi_find_hosts (error))
    return FALSE;
  MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_TAG_UB, (void *)&greatest, &found);
  engine->greatest_tag = found ? *greatest : 32767; /* which the standard promises */
  for (guint i = 0; i < PS_MPI_N_LETTERS; i++)
    if (!ps_mpi_expect_letter (i, error))
      return FALSE;
  return TRUE;
}

/* Looks at MPI until the state changes or a call fails; then no thread calls MPI. FALSE when a call has failed. */
static gboolean
serve (GError **error)
{
  ps_mpi_lock ();
  engine->round_ns = engine->quiet_ns = ps_clock_now ();
  while (engine->state == PS_MPI_READY && engine->broken == NULL)
    {
      if (!engine->calls)
        ps_mpi_look ();
      if (engine->state == PS_MPI_READY && engine->broken == NULL
          && (engine->calls || g_queue_is_empty (&engine->queue)))
        ps_mpi_nap ();
    }
  while (engine->calls)
    ps_mpi_sleep (&engine->changed, 0);
  if (engine->broken != NULL)
    g_propagate_error (error, g_error_copy (engine->broken));
  ps_mpi_unlock ();
  return engine->broken == NULL;
}

static void
set_state (PsMpiState state)
{
  ps_mpi_lock ();
  engine->state = state;
  wake_clients ();
  pthread_cond_broadcast (&engine->told);
  ps_mpi_unlock ();
}

/* MPI has failed, and this process is the only one: its transports fail. */
static void
fail_clients (const GError *error)
{
  ps_mpi_lock ();
  /* None can leave meanwhile. */
  engine->failing = TRUE;
  ps_mpi_unlock ();
  for (guint i = 0; i < engine->clients->len; i++)
    {
      PsMpiClient *client = g_ptr_array_index (engine->clients, i);

      client->fail (client->data, g_error_copy (error));
    }
  ps_mpi_lock ();
  engine->failing = FALSE;
  pthread_cond_broadcast (&engine->told);
  while (engine->state == PS_MPI_BROKEN)
    ps_mpi_sleep (&engine->changed, 0);
  ps_mpi_unlock ();
}

/* An error of MPI most often follows from the end of another process. Its launcher names that process and ends the
 * others, so it gets some time to do so. */
static void
report_broken (const GError *error)
{
  gint64 until_ns = ps_clock_now () + BLAME_NS;

  set_state (PS_MPI_BROKEN);
  ps_mpi_lock ();
  engine->spoiled = TRUE;
  while (engine->report != NULL && engine->failure == NULL && ps_mpi_sleep (&engine->changed, until_ns))
    ;
  if (engine->report != NULL)
    ps_mpi_note_failure (g_error_copy (error));
  ps_mpi_unlock ();
  if (engine->report == NULL)
    fail_clients (error);
}

/* Sends a letter to every other rank. The thread of a process answers while its devices wait or compute. */
static void
ask_all (void)
{
  const PsMpiHead head = { .kind = PS_MPI_ASKED, .from = (guint32)engine->rank };

  ps_mpi_lock ();
  ps_mpi_note_answer ((guint)engine->rank);
  for (int rank = 0; rank < engine->n_ranks; rank++)
    if (rank != engine->rank)
      ps_mpi_post_letter (rank, &head, NULL);
  ps_mpi_unlock ();
}

/* Adds to a failed wait which ranks do not answer: a rank that was waited for may wait for another one itself. If MPI
 * fails meanwhile, silence says nothing. */
static void
name_silent (void)
{
  g_autoptr (GString) text = g_string_new (engine->failure->message);
  gint64 until_ns = ps_clock_now () + ANSWER_NS;
  const char *before = "; no answer from rank ";
  gboolean busy;

  ask_all ();
  while (engine->n_answered < engine->n_ranks && ps_clock_now () < until_ns)
    {
      if (!ps_mpi_move_all (&busy, NULL))
        return;
      g_usleep (ASK_US);
    }
  for (int rank = 0; rank < engine->n_ranks; rank++)
    if (!engine->answered[rank])
      {
        g_string_append_printf (text, "%s%d", before, rank);
        before = ", ";
      }
  g_free (engine->failure->message);
  engine->failure->message = g_strdup (text->str);
}

/* A process that was stopped has most often failed the others, and its launcher wakes it to end it: then it says
 * nothing. Nor does one that was asked. */
static void
await_launcher (void)
{
  if (engine->resume_ns > 0)
    ps_clock_sleep_until (engine->resume_ns + RESUMED_NS);
}

/* The end of all processes. MPI_Abort waits for the launcher, and an alarm ends this process if MPI hangs. */
static void
end_all (void)
{
  int there, code;

  ps_mpi_note_round ();
  await_launcher ();
  alarm (ABORT_S);
  if (!engine->spoiled && g_error_matches (engine->failure, PS_ERROR, PS_ERROR_IO))
    {
      name_silent ();
      await_launcher ();
    }
  code = engine->report (engine->failure, engine->report_data);
  if (MPI_Initialized (&there) == MPI_SUCCESS && there)
    MPI_Abort (MPI_COMM_WORLD, code);
  _exit (code);
}

/* MPI wants no request left over when it ends. */
static void
finish_mpi (void)
{
  for (guint i = 0; i < PS_MPI_N_LETTERS; i++)
    {
      MPI_Cancel (&engine->arrivals[i]);
      MPI_Wait (&engine->arrivals[i], MPI_STATUS_IGNORE);
    }
  g_array_set_size (engine->statuses, engine->requests->len);
  MPI_Waitall ((int)engine->requests->len, (MPI_Request *)(gpointer)engine->requests->data,
               (MPI_Status *)(gpointer)engine->statuses->data);
  MPI_Finalize ();
}

gpointer
ps_mpi_loop (gpointer unused)
{
  g_autoptr (GError) error = NULL;
  gboolean orderly, failed;

  prctl (PR_SET_TIMERSLACK, 1); /* naps are shorter than the usual slack */
  engine->requests = g_array_new (FALSE, FALSE, sizeof (MPI_Request));
  engine->indices = g_array_new (FALSE, FALSE, sizeof (int));
  engine->statuses = g_array_new (FALSE, FALSE, sizeof (MPI_Status));
  if (start_mpi (&error))
    {
      set_state (PS_MPI_READY);
      serve (&error);
    }
  if (error != NULL)
    report_broken (error);
  ps_mpi_lock ();
  orderly = !engine->spoiled;
  failed = engine->failure != NULL;
  ps_mpi_unlock ();
  if (failed)
    end_all ();
  if (orderly)
    finish_mpi ();
  set_state (PS_MPI_ENDED);
  return NULL;
}
