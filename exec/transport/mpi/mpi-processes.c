/* mpi-processes.c - the processes that MPI has started: messages between them, and one end for all. */
#include "mpi-processes.h"

#include "mpi-engine-private.h"

#include <string.h>

#define PIECE_BYTES ((gsize)1 << 30) /* MPI counts bytes in an int */
#define JOIN_NS G_GINT64_CONSTANT (120000000000)

/* Rank 0 has so long to report another rank's error. Then that rank does it, the first of several before the next. */
#define VERDICT_NS G_GINT64_CONSTANT (5000000000)
#define TURN_NS G_GINT64_CONSTANT (200000000)

static PsMpiEngine *const engine = &ps_mpi_engine;
static PsProcesses the_processes;
static pthread_cond_t moved; /* a piece has */

typedef struct
{
  PsMpiTransfer transfer; /* first */
  gboolean done;
} Piece;

static void
piece_done (PsMpiTransfer *transfer)
{
  ((Piece *)transfer)->done = TRUE;
  pthread_cond_broadcast (&moved);
}

/* Does not return: the engine's thread ends the process. */
static void
await_end (void)
{
  ps_mpi_lock ();
  for (;;)
    ps_mpi_sleep (&moved, 0);
}

static void
post_failure (const GError *error)
{
  PsMpiHead head = { .kind = PS_MPI_FAILED,
                     .tag = ps_error_exit_code (error) == 2 ? PS_ERROR_USAGE
                            : error->domain == PS_ERROR     ? error->code
                                                            : PS_ERROR_IO,
                     .n_bytes = (guint32)MIN (strlen (error->message), PS_MPI_INLINE_BYTES) };

  ps_mpi_post_letter (0, &head, error->message);
}

static void
fail (PsProcesses *processes, const GError *error)
{
  GError *named = g_error_copy (error);
  gint64 until_ns = ps_clock_now () + VERDICT_NS + processes->rank * TURN_NS;

  g_prefix_error (&named, "rank %u: ", processes->rank);
  ps_mpi_lock ();
  if (processes->rank > 0)
    {
      post_failure (named);
      while (ps_mpi_sleep (&moved, until_ns))
        ;
    }
  ps_mpi_note_failure (named);
  ps_mpi_unlock ();
  await_end ();
}

static void
fail_waiting (PsProcesses *processes, guint rank, gint64 timeout_ns)
{
  const char *meeting = processes->meeting;
  g_autofree char *where = meeting != NULL ? g_strdup_printf (" %s %u", meeting, processes->step) : g_strdup ("");
  g_autoptr (GError) error
      = g_error_new (PS_ERROR, PS_ERROR_IO, "waited %g s for rank %u%s", (double)timeout_ns / 1e9, rank, where);

  fail (processes, error);
}

static void
move_piece (PsProcesses *processes, Piece *piece, gint64 timeout_ns)
{
  PsMpiWait wait;

  piece->transfer.tag = PS_MPI_GROUP_TAG;
  piece->transfer.done = piece_done;
  ps_mpi_lock ();
  ps_mpi_post (&piece->transfer);
  if (piece->transfer.n_bytes > PS_MPI_INLINE_BYTES)
    ps_mpi_moves (&piece->transfer);
  ps_mpi_wait_begin (&wait, &moved, timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0);
  while (!piece->done && ps_mpi_wait_more (&wait))
    ;
  ps_mpi_wait_end (&wait);
  ps_mpi_unlock ();
  if (!piece->done)
    fail_waiting (processes, (guint)piece->transfer.rank, timeout_ns);
}

static void
move (PsProcesses *processes, gboolean incoming, guint rank, guint8 *bytes, gsize n_bytes, gint64 timeout_ns)
{
  gsize n_done = 0;

  do
    {
      Piece piece = { .transfer = { .incoming = incoming,
                                    .rank = (int)rank,
                                    .data = bytes + n_done,
                                    .n_bytes = MIN (n_bytes - n_done, PIECE_BYTES) } };

      move_piece (processes, &piece, timeout_ns);
      n_done += piece.transfer.n_bytes;
    }
  while (n_done < n_bytes);
}

static void
send_bytes (PsProcesses *processes, guint to, gconstpointer bytes, gsize n_bytes)
{
  move (processes, FALSE, to, (guint8 *)bytes, n_bytes, 0);
}

static void
receive_bytes (PsProcesses *processes, guint from, gpointer bytes, gsize n_bytes, gint64 timeout_ns)
{
  move (processes, TRUE, from, bytes, n_bytes, timeout_ns);
}

/* MPI is ready when all processes have come. Locked. */
static gboolean
start_mpi (GError **error)
{
  gint64 until_ns = ps_clock_now () + JOIN_NS;

  if (!ps_mpi_engine_start (error))
    return FALSE;
  while (!ps_mpi_engine_ready () && ps_mpi_sleep (&engine->told, until_ns))
    ;
  if (ps_mpi_engine_ready ())
    return TRUE;
  return ps_refuse (error, PS_ERROR_IO, "MPI was not ready after %g s", (double)JOIN_NS / 1e9);
}

gboolean
ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error)
{
  gboolean started, alone;

  ps_clock_condition_init (&moved);
  ps_mpi_lock ();
  engine->report_data = data;
  engine->report = report;
  started = start_mpi (error);
  alone = started && engine->n_ranks == 1;
  if (alone)
    engine->report = NULL;
  ps_mpi_unlock ();
  *processes = NULL;
  if (!started || alone)
    return started;
  the_processes = (PsProcesses){ .rank = (guint)engine->rank,
                                 .n_ranks = (guint)engine->n_ranks,
                                 .local_rank = (guint)engine->local_rank,
                                 .n_local = (guint)engine->n_local,
                                 .clock_offset_ns = engine->clock_offset_ns,
                                 .send = send_bytes,
                                 .receive = receive_bytes,
                                 .fail = fail };
  *processes = &the_processes;
  return TRUE;
}
