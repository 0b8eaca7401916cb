/* mpi-move.c - one look at MPI: starts what is posted, takes the letters that have come, and ends what is done. */
#include "mpi-engine-private.h"

#include <stdlib.h>

#define STOPPED_NS G_GINT64_CONSTANT (1000000000) /* a round that took longer: the process was stopped */

static PsMpiEngine *const engine = &ps_mpi_engine;

gboolean
ps_mpi_expect_letter (guint place, GError **error)
{
  return ps_mpi_check ("MPI_Irecv",
                       MPI_Irecv (&engine->letters[place], sizeof (PsMpiLetter), MPI_BYTE, MPI_ANY_SOURCE,
                                  PS_MPI_LETTER_TAG, MPI_COMM_WORLD, &engine->arrivals[place]),
                       error);
}

/* Starts a queued transfer. */
static gboolean
start_transfer (PsMpiTransfer *transfer, GError **error)
{
  MPI_Request request;
  gboolean started = transfer->incoming
                         ? ps_mpi_check ("MPI_Irecv",
                                         MPI_Irecv (transfer->data, (int)transfer->n_bytes, MPI_BYTE, transfer->rank,
                                                    transfer->tag, MPI_COMM_WORLD, &request),
                                         error)
                         : ps_mpi_check ("MPI_Isend",
                                         MPI_Isend (transfer->data, (int)transfer->n_bytes, MPI_BYTE, transfer->rank,
                                                    transfer->tag, MPI_COMM_WORLD, &request),
                                         error);

  if (!started)
    return FALSE;
  g_array_append_val (engine->requests, request);
  g_ptr_array_add (engine->under_way, transfer);
  return TRUE;
}

static PsMpiTransfer *
take_queued (void)
{
  PsMpiTransfer *transfer;

  pthread_mutex_lock (&engine->lock);
  transfer = g_queue_pop_head (&engine->queue);
  if (transfer != NULL)
    transfer->phase = PS_MPI_UNDER_WAY;
  pthread_mutex_unlock (&engine->lock);
  return transfer;
}

static gboolean
start_queued (gboolean *busy, GError **error)
{
  PsMpiTransfer *transfer;

  while ((transfer = take_queued ()) != NULL)
    {
      *busy = TRUE;
      if (!start_transfer (transfer, error))
        return FALSE;
    }
  return TRUE;
}

/* The reason why another process fails. */
static void
take_failure (const PsMpiLetter *letter)
{
  g_autofree char *text = g_strndup ((const char *)letter->bytes, letter->head.n_bytes);

  ps_mpi_note_failure (g_error_new_literal (PS_ERROR, letter->head.tag, text));
}

void
ps_mpi_note_answer (guint rank)
{
  engine->n_answered += !engine->answered[rank];
  engine->answered[rank] = TRUE;
}

/* Under the lock. Another rank is about to end this one. Of two that ask each other the lower one reports. */
static void
answer (int rank)
{
  const PsMpiHead head = { .kind = PS_MPI_ANSWER, .from = (guint32)engine->rank };

  ps_mpi_post_letter (rank, &head, NULL);
  if (engine->failure == NULL || rank < engine->rank)
    engine->resume_ns = ps_clock_now ();
}

static void
deliver (const PsMpiLetter *letter)
{
  pthread_mutex_lock (&engine->lock);
  if (letter->head.kind == PS_MPI_FAILED)
    take_failure (letter);
  else if (letter->head.kind == PS_MPI_ASKED)
    answer ((int)letter->head.from);
  else if (letter->head.kind == PS_MPI_ANSWER)
    ps_mpi_note_answer (letter->head.from);
  for (guint i = 0; i < engine->clients->len; i++)
    {
      PsMpiClient *client = g_ptr_array_index (engine->clients, i);

      if (client->number == letter->head.transport)
        client->deliver (client->data, &letter->head, letter->bytes);
    }
  pthread_mutex_unlock (&engine->lock);
}

static gboolean
take_letters (gboolean *busy, GError **error)
{
  for (;;)
    {
      guint place = engine->next_letter;
      int there;

      if (!ps_mpi_check ("MPI_Test", MPI_Test (&engine->arrivals[place], &there, MPI_STATUS_IGNORE), error))
        return FALSE;
      if (!there)
        return TRUE;
      *busy = TRUE;
      deliver (&engine->letters[place]);
      if (!ps_mpi_expect_letter (place, error))
        return FALSE;
      engine->next_letter = (place + 1) % PS_MPI_N_LETTERS;
    }
}

/* Under the lock. */
static void
end_transfer (PsMpiTransfer *transfer)
{
  transfer->phase = PS_MPI_IDLE;
  if (transfer->moves)
    engine->n_moving--;
  if (!transfer->withdrawn)
    {
      transfer->done (transfer);
      return;
    }
  engine->n_withdrawn--;
  pthread_cond_broadcast (&engine->told);
}

static int
compare_descending (gconstpointer a, gconstpointer b)
{
  return *(const int *)b - *(const int *)a;
}

/* From the last one down, because removing one moves the later ones. */
static void
end_transfers (int n_done)
{
  qsort (engine->indices->data, (gsize)n_done, sizeof (int), compare_descending);
  pthread_mutex_lock (&engine->lock);
  for (int i = 0; i < n_done; i++)
    {
      guint index = (guint)g_array_index (engine->indices, int, i);
      PsMpiTransfer *transfer = g_ptr_array_index (engine->under_way, index);

      g_array_remove_index (engine->requests, index);
      g_ptr_array_remove_index (engine->under_way, index);
      end_transfer (transfer);
    }
  pthread_mutex_unlock (&engine->lock);
}

static gboolean
test_transfers (gboolean *busy, GError **error)
{
  int n = (int)engine->requests->len, n_done = 0;

  if (n == 0)
    return TRUE;
  g_array_set_size (engine->indices, (guint)n);
  g_array_set_size (engine->statuses, (guint)n);
  if (!ps_mpi_check ("MPI_Testsome",
                     MPI_Testsome (n, (MPI_Request *)(gpointer)engine->requests->data, &n_done,
                                   (int *)(gpointer)engine->indices->data,
                                   (MPI_Status *)(gpointer)engine->statuses->data),
                     error))
    return FALSE;
  if (n_done > 0)
    {
      *busy = TRUE;
      end_transfers (n_done);
    }
  return TRUE;
}

/* Takes back from MPI each withdrawn transfer that receives; for MPI it is done then. */
static gboolean
cancel_withdrawn (GError **error)
{
  gboolean any;

  pthread_mutex_lock (&engine->lock);
  any = engine->n_withdrawn > 0;
  pthread_mutex_unlock (&engine->lock);
  for (guint i = 0; any && i < engine->under_way->len; i++)
    {
      PsMpiTransfer *transfer = g_ptr_array_index (engine->under_way, i);
      gboolean cancels;

      pthread_mutex_lock (&engine->lock);
      cancels = transfer->withdrawn && transfer->incoming;
      transfer->incoming &= !cancels; /* once is enough */
      pthread_mutex_unlock (&engine->lock);
      if (cancels
          && !ps_mpi_check ("MPI_Cancel", MPI_Cancel (&g_array_index (engine->requests, MPI_Request, i)), error))
        return FALSE;
    }
  return TRUE;
}

void
ps_mpi_note_round (void)
{
  gint64 now_ns = ps_clock_now ();

  if (now_ns - engine->round_ns > STOPPED_NS)
    engine->resume_ns = now_ns;
  engine->round_ns = now_ns;
}

gboolean
ps_mpi_move_all (gboolean *busy, GError **error)
{
  return cancel_withdrawn (error) && start_queued (busy, error) && take_letters (busy, error)
         && test_transfers (busy, error);
}
