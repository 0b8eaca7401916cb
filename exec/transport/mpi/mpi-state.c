/* mpi-state.c - the state of the engine, what is posted, and the failure to be reported. */
#include "mpi-engine-private.h"

#include <string.h>

PsMpiEngine ps_mpi_engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .last_tag = PS_MPI_GROUP_TAG };

static PsMpiEngine *const engine = &ps_mpi_engine;

/* A letter on its way out. */
typedef struct
{
  PsMpiTransfer transfer;
  PsMpiLetter letter; /* allocated as long as needed */
} Envelope;

gboolean
ps_mpi_engine_ready (void)
{
  return engine->state == PS_MPI_READY;
}

void
ps_mpi_post (PsMpiTransfer *transfer)
{
  g_assert (transfer->phase == PS_MPI_IDLE && transfer->n_bytes <= G_MAXINT);

  transfer->phase = PS_MPI_QUEUED;
  transfer->moves = transfer->withdrawn = FALSE;
  g_queue_push_tail (&engine->queue, transfer);
}

static void
free_envelope (PsMpiTransfer *transfer)
{
  g_free (transfer);
}

void
ps_mpi_post_letter (int rank, const PsMpiHead *head, const void *bytes)
{
  gsize n_bytes = sizeof *head + head->n_bytes;
  Envelope *envelope = g_malloc (G_STRUCT_OFFSET (Envelope, letter) + n_bytes);

  g_assert (head->n_bytes <= PS_MPI_INLINE_BYTES);

  envelope->transfer = (PsMpiTransfer){
    .rank = rank, .tag = PS_MPI_LETTER_TAG, .data = &envelope->letter, .n_bytes = n_bytes, .done = free_envelope
  };
  envelope->letter.head = *head;
  if (head->n_bytes > 0)
    memcpy (envelope->letter.bytes, bytes, head->n_bytes);
  ps_mpi_post (&envelope->transfer);
}

void
ps_mpi_note_failure (GError *error)
{
  if (engine->failure == NULL)
    engine->failure = g_steal_pointer (&error);
  g_clear_error (&error);
  if (engine->state == PS_MPI_READY)
    engine->state = PS_MPI_FAILING;
  pthread_cond_broadcast (&engine->changed);
}
