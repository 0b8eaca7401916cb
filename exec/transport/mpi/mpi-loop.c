/* mpi-loop.c - the thread that talks to MPI. */
#include "mpi-engine-private.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SHORTEST_NAP_NS G_GINT64_CONSTANT (10000) /* a shorter one costs more than it is long */
#define SPIN_NS G_GINT64_CONSTANT (100000000)     /* longest time awake for data that should move and do not */
#define STOPPED_NS G_GINT64_CONSTANT (1000000000) /* a round that took longer: the process was stopped */
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
expect_letter (guint place, GError **error)
{
  return ps_mpi_check ("MPI_Irecv",
                       MPI_Irecv (&engine->letters[place], sizeof (PsMpiLetter), MPI_BYTE, MPI_ANY_SOURCE,
                                  PS_MPI_LETTER_TAG, MPI_COMM_WORLD, &engine->arrivals[place]),
                       error);
}

static gboolean
start_mpi (GError **error)
{
  int provided, found = 0, *greatest = NULL;

  if (!ps_mpi_check ("MPI_Init_thread", MPI_Init_thread (NULL, NULL, MPI_THREAD_FUNNELED, &provided), error)
      || !ps_mpi_check ("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN), error))
    return FALSE;
  MPI_Comm_rank (MPI_COMM_WORLD, &engine->rank);
  MPI_Comm_size (MPI_COMM_WORLD, &engine->n_ranks);
  engine->answered = g_new0 (guint8, engine->n_ranks);
  if (!ps_mpi_find_hosts (error))
    return FALSE;
  MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_TAG_UB, (void *)&greatest, &found);
  engine->greatest_tag = found ? *greatest : 32767; /* which the standard promises */
  for (guint i = 0; i < PS_MPI_N_LETTERS; i++)
    if (!expect_letter (i, error))
      return FALSE;
  return TRUE;
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

  ps_mpi_lock ();
  transfer = g_queue_pop_head (&engine->queue);
  if (transfer != NULL)
    transfer->phase = PS_MPI_UNDER_WAY;
  ps_mpi_unlock ();
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

/* Under the lock. */
static void
note_answer (guint rank)
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
  ps_mpi_lock ();
  if (letter->head.kind == PS_MPI_FAILED)
    take_failure (letter);
  else if (letter->head.kind == PS_MPI_ASKED)
    answer ((int)letter->head.from);
  else if (letter->head.kind == PS_MPI_ANSWER)
    note_answer (letter->head.from);
  for (guint i = 0; i < engine->clients->len; i++)
    {
      PsMpiClient *client = g_ptr_array_index (engine->clients, i);

      if (client->number == letter->head.transport)
        client->deliver (client->data, &letter->head, letter->bytes);
    }
  ps_mpi_unlock ();
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
      if (!expect_letter (place, error))
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
  ps_mpi_lock ();
  for (int i = 0; i < n_done; i++)
    {
      guint index = (guint)g_array_index (engine->indices, int, i);
      PsMpiTransfer *transfer = g_ptr_array_index (engine->under_way, index);

      g_array_remove_index (engine->requests, index);
      g_ptr_array_remove_index (engine->under_way, index);
      end_transfer (transfer);
    }
  ps_mpi_unlock ();
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

  ps_mpi_lock ();
  any = engine->n_withdrawn > 0;
  ps_mpi_unlock ();
  for (guint i = 0; any && i < engine->under_way->len; i++)
    {
      PsMpiTransfer *transfer = g_ptr_array_index (engine->under_way, i);
      gboolean cancels;

      ps_mpi_lock ();
      cancels = transfer->withdrawn && transfer->incoming;
      transfer->incoming &= !cancels; /* once is enough */
      ps_mpi_unlock ();
      if (cancels
          && !ps_mpi_check ("MPI_Cancel", MPI_Cancel (&g_array_index (engine->requests, MPI_Request, i)), error))
        return FALSE;
    }
  return TRUE;
}

/* How long to sleep when nothing has happened for quiet_ns. At first a nap is short because a message may come soon;
 * later it is a small part of the wait so far. Under the lock. */
static gint64
nap_length (gint64 quiet_ns)
{
  gint64 soon_ns = engine->n_waiting > 0 ? PS_MPI_NAP_NS : PS_MPI_IDLE_NAP_NS;

  soon_ns = CLAMP (quiet_ns / PS_MPI_NAP_SHARE, SHORTEST_NAP_NS, soon_ns);
  return CLAMP (quiet_ns / PS_MPI_LONG_NAP_SHARE, soon_ns, PS_MPI_LONGEST_NAP_NS);
}

/* Sleeps until there may be something to do. quiet_ns: when something was done last. */
static void
nap (gint64 quiet_ns)
{
  gint64 now_ns = ps_clock_now ();
  gboolean yields = FALSE;

  ps_mpi_lock ();
  if (!g_queue_is_empty (&engine->queue) || engine->state != PS_MPI_READY)
    ;
  else if (engine->report == NULL && engine->clients->len == 0 && engine->under_way->len == 0)
    ps_mpi_sleep (&engine->changed, 0);
  else if (engine->n_moving > 0 && now_ns - quiet_ns < SPIN_NS)
    yields = TRUE;
  else
    ps_mpi_sleep (&engine->changed, now_ns + nap_length (now_ns - quiet_ns));
  ps_mpi_unlock ();
  if (yields)
    sched_yield ();
}

static gboolean
is_ready (void)
{
  gboolean ready;

  ps_mpi_lock ();
  ready = engine->state == PS_MPI_READY;
  ps_mpi_unlock ();
  return ready;
}

static void
note_round (void)
{
  gint64 now_ns = ps_clock_now ();

  if (now_ns - engine->round_ns > STOPPED_NS)
    engine->resume_ns = now_ns;
  engine->round_ns = now_ns;
}

static gboolean
move_all (gboolean *busy, GError **error)
{
  return cancel_withdrawn (error) && start_queued (busy, error) && take_letters (busy, error)
         && test_transfers (busy, error);
}

static gboolean
serve (GError **error)
{
  gint64 quiet_ns = ps_clock_now ();

  engine->round_ns = quiet_ns;
  while (is_ready ())
    {
      gboolean busy = FALSE;

      note_round ();
      if (!move_all (&busy, error))
        return FALSE;
      if (busy)
        quiet_ns = ps_clock_now ();
      nap (quiet_ns);
    }
  return TRUE;
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
  note_answer ((guint)engine->rank);
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
      if (!move_all (&busy, NULL))
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

  note_round ();
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
