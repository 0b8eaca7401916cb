/* mpi-process.c - MPI from its start to its end, waits, messages between processes, and one end for all of them. */
#include "mpi-process.h"

#include "clock.h"
#include "module.h"

#include <pipesim/base.h>
#include <pipesim/device.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define JOIN_NS (120 * SECOND_NS)                 /* for all processes to come */
#define SHORTEST_NAP_NS G_GINT64_CONSTANT (10000) /* a shorter one costs more than it is long */
#define GIVE_UP_NS (SECOND_NS / 5)                /* for requests to be given back */
#define PIECE_BYTES ((gsize)1 << 30)              /* MPI counts bytes in an int */
#define N_PINGS 16

/* The end. Rank 0 has REPORT_NS to report another rank's error. Then that rank does, the first of several RANK_NS
 * before the next. */
#define REPORT_NS (5 * SECOND_NS)
#define RANK_NS (SECOND_NS / 5)
#define LAUNCHER_NS (2 * SECOND_NS) /* for the launcher to end all processes after an error of MPI */
#define STOPPED_NS SECOND_NS        /* between two looks: the process was stopped */
#define RESUMED_NS (4 * SECOND_NS)  /* for the launcher to end a process that was stopped */
#define ANSWER_NS SECOND_NS         /* for ranks that are asked whether they live */
#define ASK_US 100                  /* between two looks for their answers */
#define ABORT_S 10                  /* for the last calls of MPI */
#define FINALIZE_NS (5 * SECOND_NS)
#define UNUSABLE_NS (SECOND_NS / 2) /* for MPI's thread to end where MPI is not finalized */

typedef enum {
  OFF,
  STARTING, /* in MPI_Init_thread, until the other processes have come */
  READY,
  ENDING, /* the program exits */
  ENDED,
} State;

typedef enum {
  NOTE_FAILED, /* to rank 0: why the sender's process fails */
  NOTE_ASKED,  /* the sender is about to end all processes and wants an answer */
  NOTE_ANSWER,
} NoteKind;

/* A message about the end. The processes of one run have one version of it. */
typedef struct {
  gint32 kind;
  gint32 rank; /* of the sender */
  gint32 code; /* of a failure: a PsError */
  char text[4096];
} Note;

/* There is one MPI in a process. */
static struct {
  pthread_mutex_t lock; /* guards what follows, up to self */
  pthread_cond_t changed;
  State state;
  GError *broken;         /* MPI did not start */
  GError *failure;        /* all processes end with it */
  GSList *users;          /* of PsMpiUser */
  gint n_devices;         /* of all users */
  PsFailureReport report; /* where there are other processes */
  gpointer report_data;

  PsProcesses self; /* constant once MPI is ready; and so are the next three */
  gint64 *clock_offset_ns;
  int greatest_tag;
  guint n_cores; /* of this host */

  gint spins;     /* atomic: waits begin without a nap */
  gint n_events;  /* atomic: transfers that began or ended */
  gint n_waiting; /* atomic: threads in a wait */
  gint unusable;  /* atomic: an MPI call has failed, or MPI holds memory that it did not give back */

  /* Of MPI's thread. */
  Note note;
  MPI_Request note_request;
  guint8 *answered; /* [n_ranks] */
  gint64 round_ns;  /* when the thread looked last */
  gint64 resume_ns; /* when the process had been stopped, or was asked, last; 0: never */
} mpi = { .lock = PTHREAD_MUTEX_INITIALIZER, .note_request = MPI_REQUEST_NULL };

/* Calls and waits */

gboolean ps_mpi_check (const char *call, int result, GError **error)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;

  if (result == MPI_SUCCESS)
    return TRUE;
  MPI_Error_string (result, text, &length);
  g_atomic_int_set (&mpi.unusable, TRUE);
  if (mpi.self.n_ranks > 1)
    ps_clock_sleep_until (ps_clock_now () + LAUNCHER_NS);
  return ps_refuse (error, PS_ERROR_IO, "%s: %s", call, text);
}

gboolean ps_mpi_send (gconstpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error)
{
  g_atomic_int_inc (&mpi.n_events);
  return ps_mpi_check ("MPI_Isend", MPI_Isend (bytes, (int)n_bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, request),
                       error);
}

gboolean ps_mpi_receive (gpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error)
{
  g_atomic_int_inc (&mpi.n_events);
  return ps_mpi_check ("MPI_Irecv", MPI_Irecv (bytes, (int)n_bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, request),
                       error);
}

/* In order: bytes follow soon when the times of a message have come, which is an event. */
gboolean ps_mpi_test (MPI_Request *requests, guint n, gboolean *done, GError **error)
{
  int there = TRUE;

  for (guint i = 0; i < n && there; i++) {
    if (requests[i] == MPI_REQUEST_NULL)
      continue;
    if (!ps_mpi_check ("MPI_Test", MPI_Test (&requests[i], &there, MPI_STATUS_IGNORE), error))
      return *done = FALSE;
    if (there)
      g_atomic_int_inc (&mpi.n_events);
  }
  *done = there;
  return TRUE;
}

/* *event_ns: when the latest event was seen. */
static void note_event (gint *n_seen, gint64 *event_ns, gint64 now_ns)
{
  const gint n_events = g_atomic_int_get (&mpi.n_events);

  if (n_events != *n_seen)
    *event_ns = now_ns;
  *n_seen = n_events;
}

/* At first a nap is short because a message may come soon; later it is a small part of the quiet time. */
static gint64 nap_length (gint64 quiet_ns, gint64 longest_ns)
{
  return CLAMP (quiet_ns / PS_MPI_LONG_NAP_SHARE, CLAMP (quiet_ns / PS_MPI_NAP_SHARE, SHORTEST_NAP_NS, longest_ns),
                PS_MPI_LONGEST_NAP_NS);
}

gboolean ps_mpi_wait (MPI_Request *requests, guint n, gint64 until_ns, const PsMpiUser *user, GError **error)
{
  gint64 event_ns = ps_clock_now (), now_ns;
  gint n_events = g_atomic_int_get (&mpi.n_events);
  gboolean done = FALSE;

  g_atomic_int_inc (&mpi.n_waiting);
  while (ps_mpi_test (requests, n, &done, error) && !done) {
    now_ns = ps_clock_now ();
    if ((until_ns > 0 && now_ns >= until_ns) || (user != NULL && g_atomic_int_get (&user->stopped)))
      break;
    note_event (&n_events, &event_ns, now_ns);
    if (now_ns - event_ns < PS_MPI_SPIN_NS && g_atomic_int_get (&mpi.spins))
      continue;
    if (user != NULL)
      user->look (user->data);
    g_usleep ((gulong)(nap_length (now_ns - event_ns, PS_MPI_NAP_NS) / 1000));
  }
  g_atomic_int_add (&mpi.n_waiting, -1);
  return done;
}

/* Takes a message of this process to itself that nobody wants. FALSE: there is none. */
static gboolean drop_message (void)
{
  g_autofree void *bytes = NULL;
  MPI_Message message;
  MPI_Status status;
  int there = FALSE, n_bytes;

  if (MPI_Improbe (0, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &message, &status) != MPI_SUCCESS || !there)
    return FALSE;
  MPI_Get_count (&status, MPI_BYTE, &n_bytes);
  bytes = g_malloc (MAX (n_bytes, 1));
  MPI_Mrecv (bytes, n_bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  return TRUE;
}

gboolean ps_mpi_give_up (MPI_Request *requests, guint n_receives, guint n)
{
  const gint64 until_ns = ps_clock_now () + GIVE_UP_NS;
  gboolean done = FALSE, dropped = FALSE;

  for (guint i = 0; i < n_receives; i++)
    if (requests[i] != MPI_REQUEST_NULL)
      MPI_Cancel (&requests[i]);
  do
    dropped = mpi.self.n_ranks == 1 && drop_message ();
  while (ps_mpi_test (requests, n, &done, NULL) && (dropped || !done) && ps_clock_now () < until_ns);
  if (!done)
    g_atomic_int_set (&mpi.unusable, TRUE);
  return done;
}

/* Users */

/* n_devices more may wait. Waits begin without a nap if each device of the host has a core of its own. Under the lock.
 */
static void add_devices (gint n_devices)
{
  mpi.n_devices += n_devices;
  g_atomic_int_set (&mpi.spins, mpi.self.n_local * (guint)MAX (mpi.n_devices, 1) <= mpi.n_cores);
}

void ps_mpi_add_user (PsMpiUser *user)
{
  pthread_mutex_lock (&mpi.lock);
  mpi.users = g_slist_prepend (mpi.users, user);
  add_devices ((gint)user->n_devices);
  pthread_cond_broadcast (&mpi.changed);
  pthread_mutex_unlock (&mpi.lock);
}

void ps_mpi_remove_user (PsMpiUser *user)
{
  pthread_mutex_lock (&mpi.lock);
  mpi.users = g_slist_remove (mpi.users, user);
  add_devices (-(gint)user->n_devices);
  pthread_mutex_unlock (&mpi.lock);
}

/* Notes about the end */

/* MPI may read the note until it has been sent, so it must stay. */
static void send_note (const Note *note, int rank)
{
  const gsize n_bytes = G_STRUCT_OFFSET (Note, text) + strlen (note->text) + 1;
  MPI_Request request;

  if (MPI_Isend (note, (int)n_bytes, MPI_BYTE, rank, PS_MPI_NOTE_TAG, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
    MPI_Request_free (&request);
}

static gboolean expect_note (GError **error)
{
  return ps_mpi_receive (&mpi.note, sizeof mpi.note, MPI_ANY_SOURCE, PS_MPI_NOTE_TAG, &mpi.note_request, error);
}

/* Of two ranks that ask each other, the lower one reports. Under the lock. */
static void take_note (const Note *note)
{
  static Note answer = { .kind = NOTE_ANSWER };

  switch ((NoteKind)note->kind) {
  case NOTE_FAILED:
    if (mpi.failure == NULL)
      mpi.failure = g_error_new_literal (PS_ERROR, note->code, note->text);
    break;
  case NOTE_ASKED:
    answer.rank = (gint32)mpi.self.rank;
    send_note (&answer, note->rank);
    if (mpi.failure == NULL || (guint)note->rank < mpi.self.rank)
      mpi.resume_ns = ps_clock_now ();
    break;
  case NOTE_ANSWER:
    mpi.answered[note->rank] = TRUE;
  }
}

/* FALSE: MPI has failed. */
static gboolean take_notes (GError **error)
{
  gboolean there = TRUE;

  while (mpi.self.n_ranks > 1 && there) {
    if (!ps_mpi_test (&mpi.note_request, 1, &there, error))
      return FALSE;
    if (!there)
      return TRUE;
    take_note (&mpi.note);
    if (!expect_note (error))
      return FALSE;
  }
  return TRUE;
}

/* Sleeps until something is changed or until_ns (0: never). Under the lock, which is free meanwhile. */
static gboolean sleep_until (gint64 until_ns)
{
  const struct timespec until = ps_clock_timespec (until_ns);

  if (until_ns == 0)
    return pthread_cond_wait (&mpi.changed, &mpi.lock) == 0;
  return pthread_cond_timedwait (&mpi.changed, &mpi.lock, &until) != ETIMEDOUT;
}

/* The hooks of PsProcesses */

/* MPI's thread ends the process. */
static void fail (PsProcesses *processes, const GError *error)
{
  GError *named = g_error_copy (error);
  Note note = { .kind = NOTE_FAILED, .rank = (gint32)processes->rank };

  g_prefix_error (&named, "rank %u: ", processes->rank);
  note.code = ps_error_exit_code (error) == 2 ? PS_ERROR_USAGE : error->domain == PS_ERROR ? error->code : PS_ERROR_IO;
  g_strlcpy (note.text, named->message, sizeof note.text);
  if (processes->rank > 0) {
    send_note (&note, 0);
    ps_clock_sleep_until (ps_clock_now () + REPORT_NS + processes->rank * RANK_NS);
  }
  pthread_mutex_lock (&mpi.lock);
  if (mpi.failure == NULL)
    mpi.failure = named;
  pthread_cond_broadcast (&mpi.changed);
  for (;;)
    sleep_until (0);
}

/* Sends or receives, piece by piece. */
static void move (PsProcesses *processes, gboolean sends, guint rank, guint8 *bytes, gsize n_bytes, gint64 timeout_ns)
{
  gsize n_done = 0;

  do {
    const gsize n = MIN (n_bytes - n_done, PIECE_BYTES);
    MPI_Request request = MPI_REQUEST_NULL;
    GError *error = NULL;
    gboolean begun = sends ? ps_mpi_send (bytes + n_done, n, (int)rank, PS_MPI_PROCESS_TAG, &request, &error)
                           : ps_mpi_receive (bytes + n_done, n, (int)rank, PS_MPI_PROCESS_TAG, &request, &error);

    if (!begun || !ps_mpi_wait (&request, 1, timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0, NULL, &error)) {
      g_autofree char *where
          = processes->meeting != NULL ? g_strdup_printf (" %s %u", processes->meeting, processes->step) : NULL;

      if (error == NULL)
        ps_refuse (&error, PS_ERROR_IO, "waited %g s for rank %u%s", (double)timeout_ns / 1e9, rank,
                   where != NULL ? where : "");
      fail (processes, error);
    }
    n_done += n;
  } while (n_done < n_bytes);
}

static void send_bytes (PsProcesses *processes, guint to, gconstpointer bytes, gsize n_bytes)
{
  move (processes, TRUE, to, (guint8 *)bytes, n_bytes, 0);
}

static void receive_bytes (PsProcesses *processes, guint from, gpointer bytes, gsize n_bytes, gint64 timeout_ns)
{
  move (processes, FALSE, from, bytes, n_bytes, timeout_ns);
}

/* The start */

/* The offset of another rank's clock, which calls tell_clock. */
static gint64 ask_clock (int rank)
{
  gint64 sent_ns[N_PINGS], there_ns[N_PINGS], came_ns[N_PINGS], uncertainty_ns, offset_ns;

  for (guint i = 0; i < N_PINGS; i++) {
    sent_ns[i] = ps_clock_now ();
    MPI_Sendrecv (NULL, 0, MPI_BYTE, rank, PS_MPI_PROCESS_TAG, &there_ns[i], 1, MPI_INT64_T, rank, PS_MPI_PROCESS_TAG,
                  MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    came_ns[i] = ps_clock_now ();
  }
  offset_ns = ps_clock_estimate (sent_ns, there_ns, came_ns, N_PINGS, &uncertainty_ns);
  g_info ("rank %d: clock offset %" G_GINT64_FORMAT " ns, within %" G_GINT64_FORMAT " ns", rank, offset_ns,
          uncertainty_ns);
  return offset_ns;
}

static void tell_clock (int rank)
{
  for (guint i = 0; i < N_PINGS; i++) {
    MPI_Recv (NULL, 0, MPI_BYTE, rank, PS_MPI_PROCESS_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gint64 now_ns = ps_clock_now ();
    MPI_Send (&now_ns, 1, MPI_INT64_T, rank, PS_MPI_PROCESS_TAG, MPI_COMM_WORLD);
  }
}

/* Finds which processes share a host, and how far apart the clocks of hosts are. The processes of one host share its
 * clock. */
static gboolean find_hosts (int rank, int n_ranks, GError **error)
{
  g_autofree int *first = g_new (int, (gsize)n_ranks); /* lowest rank of the host of each */
  int own = rank, local_rank, n_local;
  MPI_Comm host;

  if (!ps_mpi_check ("MPI_Comm_split_type",
                     MPI_Comm_split_type (MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), error))
    return FALSE;
  MPI_Comm_rank (host, &local_rank);
  MPI_Comm_size (host, &n_local);
  if (!ps_mpi_check ("MPI_Bcast", MPI_Bcast (&own, 1, MPI_INT, 0, host), error)
      || !ps_mpi_check ("MPI_Comm_free", MPI_Comm_free (&host), error)
      || !ps_mpi_check ("MPI_Allgather", MPI_Allgather (&own, 1, MPI_INT, first, 1, MPI_INT, MPI_COMM_WORLD), error))
    return FALSE;
  mpi.clock_offset_ns = g_new0 (gint64, (gsize)n_ranks);
  if (rank > 0 && first[rank] > 0)
    tell_clock (0);
  for (int other = 1; other < n_ranks && rank == 0; other++)
    if (first[other] > 0)
      mpi.clock_offset_ns[other] = ask_clock (other);
  mpi.self = (PsProcesses){ .rank = (guint)rank,
                            .n_ranks = (guint)n_ranks,
                            .local_rank = (guint)local_rank,
                            .n_local = (guint)n_local,
                            .clock_offset_ns = mpi.clock_offset_ns,
                            .send = send_bytes,
                            .receive = receive_bytes,
                            .fail = fail };
  return ps_mpi_check ("MPI_Bcast", MPI_Bcast (mpi.clock_offset_ns, n_ranks, MPI_INT64_T, 0, MPI_COMM_WORLD), error);
}

static gboolean start_mpi (GError **error)
{
  int provided, rank, n_ranks, found = 0, *greatest = NULL;

  if (!ps_mpi_check ("MPI_Init_thread", MPI_Init_thread (NULL, NULL, MPI_THREAD_MULTIPLE, &provided), error)
      || !ps_mpi_check ("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN), error))
    return FALSE;
  if (provided < MPI_THREAD_MULTIPLE)
    return ps_refuse (
        error, PS_ERROR_UNAVAILABLE,
        "MPI: this library does not let several threads call it (MPI_THREAD_MULTIPLE); use one that does");
  MPI_Comm_rank (MPI_COMM_WORLD, &rank);
  MPI_Comm_size (MPI_COMM_WORLD, &n_ranks);
  MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_TAG_UB, (void *)&greatest, &found);
  mpi.greatest_tag = found ? *greatest : 32767; /* which the standard promises */
  mpi.n_cores = ps_count_cores ();
  mpi.answered = g_new0 (guint8, (gsize)n_ranks);
  return find_hosts (rank, n_ranks, error) && (n_ranks == 1 || expect_note (error));
}

/* The thread of MPI */

static void note_round (void)
{
  const gint64 now_ns = ps_clock_now ();

  if (now_ns - mpi.round_ns > STOPPED_NS)
    mpi.resume_ns = now_ns;
  mpi.round_ns = now_ns;
}

/* Looks at MPI until the program or all processes end. Where there are no other processes and no transport is open,
 * there is nothing to look for. Under the lock. */
static gboolean serve (GError **error)
{
  gint64 event_ns = ps_clock_now (); /* seen last */
  gint n_events = 0;

  mpi.round_ns = event_ns;
  while (mpi.state == READY && mpi.failure == NULL) {
    if (mpi.self.n_ranks == 1 && mpi.users == NULL) {
      sleep_until (0);
      continue;
    }
    note_round ();
    for (const GSList *link = mpi.users; link != NULL; link = link->next)
      ((const PsMpiUser *)link->data)->look (((const PsMpiUser *)link->data)->data);
    if (!take_notes (error))
      return FALSE;
    note_event (&n_events, &event_ns, mpi.round_ns);
    /* Threads that wait look themselves. */
    gint64 nap_ns = nap_length (mpi.round_ns - event_ns, PS_MPI_IDLE_NAP_NS);
    sleep_until (mpi.round_ns + (g_atomic_int_get (&mpi.n_waiting) > 0 ? MAX (nap_ns, PS_MPI_IDLE_NAP_NS) : nap_ns));
  }
  return TRUE;
}

/* Adds to a failed wait which ranks do not answer: a rank that was waited for may wait for another one itself. The
 * thread of a process answers while its devices wait or compute. If MPI fails meanwhile, no answer can come. */
static void name_silent (void)
{
  static Note question = { .kind = NOTE_ASKED };
  g_autoptr (GString) text = g_string_new (mpi.failure->message);
  const gint64 until_ns = ps_clock_now () + ANSWER_NS;
  const char *before = "; no answer from rank ";

  question.rank = (gint32)mpi.self.rank;
  mpi.answered[mpi.self.rank] = TRUE;
  for (guint rank = 0; rank < mpi.self.n_ranks; rank++)
    if (rank != mpi.self.rank)
      send_note (&question, (int)rank);
  while (memchr (mpi.answered, FALSE, mpi.self.n_ranks) != NULL && ps_clock_now () < until_ns) {
    if (!take_notes (NULL))
      return;
    g_usleep (ASK_US);
  }
  for (guint rank = 0; rank < mpi.self.n_ranks; rank++)
    if (!mpi.answered[rank]) {
      g_string_append_printf (text, "%s%u", before, rank);
      before = ", ";
    }
  g_free (mpi.failure->message);
  mpi.failure->message = g_strdup (text->str);
}

/* A process that was stopped has most often failed the others, and its launcher wakes it to end it: then it says
 * nothing. Nor does one that was asked. */
static void await_launcher (void)
{
  if (mpi.resume_ns > 0)
    ps_clock_sleep_until (mpi.resume_ns + RESUMED_NS);
}

/* The end of all processes. MPI_Abort waits for the launcher, and an alarm ends this process if MPI hangs. */
static void end_all (void)
{
  int code;

  note_round ();
  await_launcher ();
  alarm (ABORT_S);
  if (!g_atomic_int_get (&mpi.unusable) && g_error_matches (mpi.failure, PS_ERROR, PS_ERROR_IO)) {
    name_silent ();
    await_launcher ();
  }
  code = mpi.report (mpi.failure, mpi.report_data);
  MPI_Abort (MPI_COMM_WORLD, code);
  _exit (code);
}

/* From MPI_Init_thread to MPI_Finalize, which wants no request left over. */
static gpointer mpi_main (gpointer unused)
{
  GError *error = NULL;

  prctl (PR_SET_TIMERSLACK, 1); /* naps are shorter than the usual slack */
  gboolean started = start_mpi (&error);
  pthread_mutex_lock (&mpi.lock);
  mpi.broken = g_steal_pointer (&error);
  mpi.state = started ? READY : ENDING;
  pthread_cond_broadcast (&mpi.changed);
  if (started && !serve (&error) && mpi.failure == NULL)
    mpi.failure = g_steal_pointer (&error);
  if (mpi.failure != NULL)
    end_all ();
  pthread_mutex_unlock (&mpi.lock);
  if (!g_atomic_int_get (&mpi.unusable)) {
    if (mpi.note_request != MPI_REQUEST_NULL)
      ps_mpi_give_up (&mpi.note_request, 1, 1);
    MPI_Finalize ();
  }
  pthread_mutex_lock (&mpi.lock);
  mpi.state = ENDED;
  pthread_cond_broadcast (&mpi.changed);
  pthread_mutex_unlock (&mpi.lock);
  return NULL;
}

/* At exit: ends MPI, but never waits long for it. A process that leaves MPI in disorder skips the exit handlers of
 * other libraries, because MPI's threads still run. */
static void end_mpi (int status, gpointer unused)
{
  gint64 until_ns = ps_clock_now () + (g_atomic_int_get (&mpi.unusable) ? UNUSABLE_NS : FINALIZE_NS);
  gboolean orderly;

  pthread_mutex_lock (&mpi.lock);
  if (mpi.state == STARTING)
    until_ns = 1; /* the other processes may never come */
  else if (mpi.state == READY)
    mpi.state = ENDING;
  pthread_cond_broadcast (&mpi.changed);
  while (mpi.state != ENDED && sleep_until (until_ns))
    ;
  orderly = mpi.state == ENDED && !g_atomic_int_get (&mpi.unusable);
  pthread_mutex_unlock (&mpi.lock);
  if (orderly)
    return;
  fflush (NULL);
  _exit (status);
}

/* Starts the thread. Under the lock. */
static gboolean start_thread (GError **error)
{
  ps_clock_condition_init (&mpi.changed);
  g_autoptr (GThread) thread = g_thread_try_new ("mpi", mpi_main, NULL, error);
  if (thread == NULL)
    return FALSE;
  mpi.state = STARTING;
  on_exit (end_mpi, NULL);
  return TRUE;
}

gboolean ps_mpi_start (int *greatest_tag, GError **error)
{
  const gint64 until_ns = ps_clock_now () + JOIN_NS;
  gboolean started;

  pthread_mutex_lock (&mpi.lock);
  started = mpi.state != OFF || start_thread (error);
  while (mpi.state == STARTING && sleep_until (until_ns))
    ;
  if (started && mpi.broken != NULL)
    g_propagate_error (error, g_error_copy (mpi.broken));
  else if (started && mpi.state != READY)
    ps_refuse (error, PS_ERROR_IO, "MPI was not ready after %g s", (double)JOIN_NS / 1e9);
  started = mpi.state == READY;
  pthread_mutex_unlock (&mpi.lock);
  *greatest_tag = mpi.greatest_tag;
  return started;
}

gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error)
{
  int greatest_tag;

  mpi.report = report;
  mpi.report_data = data;
  const gboolean started = ps_mpi_start (&greatest_tag, error);
  *processes = started && mpi.self.n_ranks > 1 ? &mpi.self : NULL;
  return started;
}

const guint64 ps_module_stamp = PS_MODULE_STAMP;
