/* mpi-engine.c - starts and ends the engine, and takes transfers back. */
#include "mpi-engine-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WITHDRAW_NS G_GINT64_CONSTANT (200000000) /* for transfers to be given back */
#define FINALIZE_NS G_GINT64_CONSTANT (5000000000)
#define PARK_NS G_GINT64_CONSTANT (500000000)

static PsMpiEngine *const engine = &ps_mpi_engine;

void
ps_mpi_moves (PsMpiTransfer *transfer)
{
  if (transfer->phase == PS_MPI_IDLE || transfer->moves)
    return;
  transfer->moves = TRUE;
  engine->n_moving++;
  if (engine->watcher == NULL)
    pthread_cond_signal (&engine->changed);
}

/* Tags wrap around. A process has far fewer transfers at a time than there are tags, so no two share one. */
int
ps_mpi_new_tag (void)
{
  engine->last_tag = engine->last_tag < engine->greatest_tag ? engine->last_tag + 1 : PS_MPI_GROUP_TAG + 1;
  return engine->last_tag;
}

/* At exit: ends MPI, but never waits long for it. A process that leaves MPI in disorder skips the exit handlers of
 * other libraries, because MPI's threads still run. */
static void
end_engine (int status, gpointer data)
{
  gint64 until_ns;
  gboolean orderly;

  ps_mpi_lock ();
  until_ns = ps_clock_now () + (engine->spoiled ? PARK_NS : FINALIZE_NS);
  if (engine->state == PS_MPI_READY || engine->state == PS_MPI_BROKEN)
    engine->state = PS_MPI_ENDING;
  else if (engine->state == PS_MPI_STARTING)
    until_ns = 1; /* the other processes may never come */
  pthread_cond_broadcast (&engine->changed);
  while (engine->state != PS_MPI_ENDED && ps_mpi_sleep (&engine->told, until_ns))
    ;
  orderly = engine->state == PS_MPI_ENDED && !engine->spoiled;
  ps_mpi_unlock ();
  if (orderly)
    return;
  fflush (NULL);
  _exit (status);
}

gboolean
ps_mpi_engine_start (GError **error)
{
  GThread *thread;

  if (engine->state != PS_MPI_OFF)
    return TRUE;
  if (engine->clients == NULL)
    {
      ps_clock_condition_init (&engine->changed);
      ps_clock_condition_init (&engine->told);
      engine->clients = g_ptr_array_new ();
      engine->under_way = g_ptr_array_new ();
    }
  thread = g_thread_try_new ("mpi", ps_mpi_loop, NULL, error);
  if (thread == NULL)
    return FALSE;
  g_thread_unref (thread);
  engine->state = PS_MPI_STARTING;
  on_exit (end_engine, NULL);
  return TRUE;
}

gboolean
ps_mpi_engine_join (PsMpiClient *client, GError **error)
{
  gboolean runs;

  ps_mpi_lock ();
  while (engine->failing)
    ps_mpi_sleep (&engine->told, 0);
  runs = ps_mpi_engine_start (error);
  if (runs)
    {
      client->number = engine->n_transports++;
      engine->n_devices = client->n_devices;
      g_ptr_array_add (engine->clients, client);
      pthread_cond_signal (&engine->changed);
    }
  ps_mpi_unlock ();
  return runs;
}

void
ps_mpi_engine_leave (PsMpiClient *client)
{
  ps_mpi_lock ();
  while (engine->failing)
    ps_mpi_sleep (&engine->told, 0);
  g_ptr_array_remove (engine->clients, client);
  pthread_cond_signal (&engine->changed);
  ps_mpi_unlock ();
}

/* Under the lock. FALSE: MPI has it. */
static gboolean
take_back (PsMpiTransfer *transfer)
{
  if (transfer->phase == PS_MPI_QUEUED)
    {
      g_queue_remove (&engine->queue, transfer);
      transfer->phase = PS_MPI_IDLE;
      if (transfer->moves)
        engine->n_moving--;
    }
  return transfer->phase == PS_MPI_IDLE;
}

guint
ps_mpi_withdraw (PsMpiTransfer **transfers, guint n)
{
  gint64 until_ns = ps_clock_now () + WITHDRAW_NS;
  guint n_kept = 0, n_left = 0;

  ps_mpi_lock ();
  for (guint i = 0; i < n; i++)
    if (!take_back (transfers[i]))
      {
        transfers[i]->withdrawn = TRUE;
        engine->n_withdrawn++;
        transfers[n_kept++] = transfers[i];
      }
  pthread_cond_signal (&engine->changed);
  while (engine->n_withdrawn > 0 && engine->state == PS_MPI_READY && ps_mpi_sleep (&engine->told, until_ns))
    ;
  for (guint i = 0; i < n_kept; i++)
    if (transfers[i]->phase != PS_MPI_IDLE)
      transfers[n_left++] = transfers[i];
  /* Without the thread MPI no longer touches the memory either. */
  if (n_left > 0 && engine->state == PS_MPI_READY)
    engine->state = PS_MPI_ENDING;
  engine->spoiled |= n_left > 0;
  ps_mpi_unlock ();
  return n_left;
}
