/* mpi-transport.c - MPI from its start to its end: waits, messages between processes, one end for all of them; and the
 * class "mpi": messages and sums by MPI between processes, and inside one.
 *
 * A thread of its own starts MPI when the program first needs it, looks at MPI now and then, and ends MPI when the
 * program exits. All other threads call MPI themselves, so it must offer MPI_THREAD_MULTIPLE.
 *
 * MPI can't wake a sleeper, so a thread that waits tests its requests again and again. For SPIN_NS, about the time that
 * waking a sleeper takes, it does not sleep if each device of the host has a core of its own. Then it naps between two
 * tests. Times count from the begin of the wait or from the latest transfer of the process that began or ended. A nap
 * lasts 1 / NAP_SHARE of that time, at most NAP_NS; or 1 / LONG_NAP_SHARE of it where that is more, at most
 * LONGEST_NAP_NS. So a message is noticed late by that share at most, and a longer wait takes less of a core. The
 * thread of MPI naps by the same rule, but up to IDLE_NAP_NS. It drives transfers whose devices compute.
 *
 * A message is two messages of MPI with one tag: when it was sent and when it may be used, and then its bytes, if it
 * has any. Its name and its devices make the tag, so MPI matches it with its receive, and messages of one name arrive
 * in order. Tensors that are not in the host's memory travel by way of it.
 */
#include "mpi-transport.h"

#include "clock.h"
#include "module.h"
#include "run/transports.h"
#include "train/devices.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPIN_NS G_GINT64_CONSTANT (50000)
#define NAP_NS G_GINT64_CONSTANT (50000)
#define IDLE_NAP_NS G_GINT64_CONSTANT (200000)
#define LONGEST_NAP_NS G_GINT64_CONSTANT (2000000)
#define NAP_SHARE 8
#define LONG_NAP_SHARE 256

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

/* Receives without a message that a look tests. Messages come about in the order of their receives. */
#define MOST_MISSING 4

/* The greatest names, where the setting does not say it. */
#define MOST_STAGES 256
#define MOST_SLICES 8

/* Tags. */
enum {
  PROCESS_TAG, /* messages of PsProcesses */
  NOTE_TAG,    /* about failures */
  FIRST_TAG,   /* of messages between devices, from here on */
};

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
  GSList *transports;     /* of MpiTransport that are open */
  gint n_devices;         /* of all of them */
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

typedef struct {
  gint64 sent_ns; /* by the clock of all: when the sender handed the message over */
  gint64 due_ns;  /* and when it may be used */
  gint64 late_ns; /* how much earlier it should have been sent */
} Times;

/* A message that is being sent, or a receive. */
typedef struct {
  PsMessageName name; /* its peer counts over all pipelines */
  Times times;
  PsTensor *tensor;        /* freed with the message by its device's class */
  void *copy;              /* its bytes in the host's memory; NULL: they are there already */
  MPI_Request requests[2]; /* for times and bytes */
  gint64 came_ns;          /* a receive: when both were here, by the clock of this process; 0: they are not */
} Message;

/* A device of this process. */
typedef struct {
  guint own; /* its number over all pipelines */
  PsSumEnd end;
  pthread_mutex_t lock;
  GQueue receives; /* of Message that no thread waits for, oldest first; under the lock */
  GQueue sends;    /* of Message, oldest first; of the device's thread */
  float *in;       /* [n_in] the numbers that the latest sums have taken */
  gsize n_in;
} Port;

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  gint stopped; /* atomic: TRUE ends all waits */
  Port *ports;  /* [n_here] */
} MpiTransport;

/* Calls */

/* FALSE with "CALL: REASON" unless the call of MPI went well. Where there are other processes it returns late then: an
 * error of MPI most often follows from the end of another process, whose launcher names that process and ends the
 * others. */
static gboolean check_call (const char *call, int result, GError **error)
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

static gboolean begin_send (gconstpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error)
{
  g_atomic_int_inc (&mpi.n_events);
  return check_call ("MPI_Isend", MPI_Isend (bytes, (int)n_bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, request), error);
}

static gboolean begin_receive (gpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error)
{
  g_atomic_int_inc (&mpi.n_events);
  return check_call ("MPI_Irecv", MPI_Irecv (bytes, (int)n_bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, request), error);
}

/* Tests n requests. *done: all of them are; then they are MPI_REQUEST_NULL.
 *
 * In order: bytes follow soon when the times of a message have come, which is an event. */
static gboolean test_requests (MPI_Request *requests, guint n, gboolean *done, GError **error)
{
  int there = TRUE;

  for (guint i = 0; i < n && there; i++) {
    if (requests[i] == MPI_REQUEST_NULL)
      continue;
    if (!check_call ("MPI_Test", MPI_Test (&requests[i], &there, MPI_STATUS_IGNORE), error))
      return *done = FALSE;
    if (there)
      g_atomic_int_inc (&mpi.n_events);
  }
  *done = there;
  return TRUE;
}

/* Messages */

static void message_free (Message *message)
{
  if (message->tensor != NULL)
    message->tensor->device->class->tensor_free (message->tensor);
  g_free (message->copy);
  g_free (message);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Message, message_free)

static Message *message_new (guint peer, PsOp op, PsTensor *tensor)
{
  Message *message = g_new0 (Message, 1);

  *message = (Message){ .name = { peer, op }, .tensor = tensor, .requests = { MPI_REQUEST_NULL, MPI_REQUEST_NULL } };
  return message;
}

static void *bytes_of (const Message *message)
{
  return message->copy != NULL ? message->copy : message->tensor->data;
}

/* Notes which messages have come while their receivers were busy, as far as the first few that have not. A receiver
 * hears of errors itself. */
static void look (MpiTransport *transport)
{
  for (guint i = 0; i < transport->setting.n_here; i++) {
    Port *port = &transport->ports[i];
    guint n_missing = 0;

    pthread_mutex_lock (&port->lock);
    for (const GList *link = port->receives.head; link != NULL && n_missing < MOST_MISSING; link = link->next) {
      Message *message = link->data;
      gboolean done = message->came_ns > 0;

      if (!done && test_requests (message->requests, 2, &done, NULL) && done)
        message->came_ns = ps_clock_now ();
      n_missing += !done;
    }
    pthread_mutex_unlock (&port->lock);
  }
}

/* Waits */

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
  return CLAMP (quiet_ns / LONG_NAP_SHARE, CLAMP (quiet_ns / NAP_SHARE, SHORTEST_NAP_NS, longest_ns), LONGEST_NAP_NS);
}

/* Waits until n requests are done. FALSE without an error: it is until_ns (0: never), or the transport (NULL: none) has
 * been stopped. */
static gboolean wait_requests (MPI_Request *requests, guint n, gint64 until_ns, MpiTransport *transport, GError **error)
{
  gint64 event_ns = ps_clock_now (), now_ns;
  gint n_events = g_atomic_int_get (&mpi.n_events);
  gboolean done = FALSE;

  g_atomic_int_inc (&mpi.n_waiting);
  while (test_requests (requests, n, &done, error) && !done) {
    now_ns = ps_clock_now ();
    if ((until_ns > 0 && now_ns >= until_ns) || (transport != NULL && g_atomic_int_get (&transport->stopped)))
      break;
    note_event (&n_events, &event_ns, now_ns);
    if (now_ns - event_ns < SPIN_NS && g_atomic_int_get (&mpi.spins))
      continue;
    if (transport != NULL)
      look (transport);
    g_usleep ((gulong)(nap_length (now_ns - event_ns, NAP_NS) / 1000));
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

/* Gives up n requests, the first n_receives of which receive. Messages to this process that nobody has taken are
 * dropped, if it is the only one. FALSE: MPI did not give all back in time, so their memory must never be freed. */
static gboolean give_up (MPI_Request *requests, guint n_receives, guint n)
{
  const gint64 until_ns = ps_clock_now () + GIVE_UP_NS;
  gboolean done = FALSE, dropped = FALSE;

  for (guint i = 0; i < n_receives; i++)
    if (requests[i] != MPI_REQUEST_NULL)
      MPI_Cancel (&requests[i]);
  do
    dropped = mpi.self.n_ranks == 1 && drop_message ();
  while (test_requests (requests, n, &done, NULL) && (dropped || !done) && ps_clock_now () < until_ns);
  if (!done)
    g_atomic_int_set (&mpi.unusable, TRUE);
  return done;
}

/* Open transports */

/* Waits begin without a nap if each device of the host has a core of its own. */
static void set_open (MpiTransport *transport, gboolean is_open)
{
  const gint n_here = (gint)transport->setting.n_here;

  pthread_mutex_lock (&mpi.lock);
  mpi.transports = is_open ? g_slist_prepend (mpi.transports, transport) : g_slist_remove (mpi.transports, transport);
  mpi.n_devices += is_open ? n_here : -n_here;
  g_atomic_int_set (&mpi.spins, mpi.self.n_local * (guint)MAX (mpi.n_devices, 1) <= mpi.n_cores);
  pthread_cond_broadcast (&mpi.changed);
  pthread_mutex_unlock (&mpi.lock);
}

/* Notes about the end */

/* MPI may read the note until it has been sent, so it must stay. */
static void send_note (const Note *note, int rank)
{
  const gsize n_bytes = G_STRUCT_OFFSET (Note, text) + strlen (note->text) + 1;
  MPI_Request request;

  if (MPI_Isend (note, (int)n_bytes, MPI_BYTE, rank, NOTE_TAG, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
    MPI_Request_free (&request);
}

static gboolean expect_note (GError **error)
{
  return begin_receive (&mpi.note, sizeof mpi.note, MPI_ANY_SOURCE, NOTE_TAG, &mpi.note_request, error);
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
    if (!test_requests (&mpi.note_request, 1, &there, error))
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
    gboolean begun = sends ? begin_send (bytes + n_done, n, (int)rank, PROCESS_TAG, &request, &error)
                           : begin_receive (bytes + n_done, n, (int)rank, PROCESS_TAG, &request, &error);

    if (!begun || !wait_requests (&request, 1, timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0, NULL, &error)) {
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
    MPI_Sendrecv (NULL, 0, MPI_BYTE, rank, PROCESS_TAG, &there_ns[i], 1, MPI_INT64_T, rank, PROCESS_TAG, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE);
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
    MPI_Recv (NULL, 0, MPI_BYTE, rank, PROCESS_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gint64 now_ns = ps_clock_now ();
    MPI_Send (&now_ns, 1, MPI_INT64_T, rank, PROCESS_TAG, MPI_COMM_WORLD);
  }
}

/* Finds which processes share a host, and how far apart the clocks of hosts are. The processes of one host share its
 * clock. */
static gboolean find_hosts (int rank, int n_ranks, GError **error)
{
  g_autofree int *first = g_new (int, (gsize)n_ranks); /* lowest rank of the host of each */
  int own = rank, local_rank, n_local;
  MPI_Comm host;

  if (!check_call ("MPI_Comm_split_type",
                   MPI_Comm_split_type (MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), error))
    return FALSE;
  MPI_Comm_rank (host, &local_rank);
  MPI_Comm_size (host, &n_local);
  if (!check_call ("MPI_Bcast", MPI_Bcast (&own, 1, MPI_INT, 0, host), error)
      || !check_call ("MPI_Comm_free", MPI_Comm_free (&host), error)
      || !check_call ("MPI_Allgather", MPI_Allgather (&own, 1, MPI_INT, first, 1, MPI_INT, MPI_COMM_WORLD), error))
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
  return check_call ("MPI_Bcast", MPI_Bcast (mpi.clock_offset_ns, n_ranks, MPI_INT64_T, 0, MPI_COMM_WORLD), error);
}

static gboolean start_mpi (GError **error)
{
  int provided, rank, n_ranks, found = 0, *greatest = NULL;

  if (!check_call ("MPI_Init_thread", MPI_Init_thread (NULL, NULL, MPI_THREAD_MULTIPLE, &provided), error)
      || !check_call ("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN), error))
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
    if (mpi.self.n_ranks == 1 && mpi.transports == NULL) {
      sleep_until (0);
      continue;
    }
    note_round ();
    for (const GSList *link = mpi.transports; link != NULL; link = link->next)
      look (link->data);
    if (!take_notes (error))
      return FALSE;
    note_event (&n_events, &event_ns, mpi.round_ns);
    /* Threads that wait look themselves. */
    gint64 nap_ns = nap_length (mpi.round_ns - event_ns, IDLE_NAP_NS);
    sleep_until (mpi.round_ns + (g_atomic_int_get (&mpi.n_waiting) > 0 ? MAX (nap_ns, IDLE_NAP_NS) : nap_ns));
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
      give_up (&mpi.note_request, 1, 1);
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

/* Starts MPI unless it runs, and returns when all processes have come. Fails if they do not come, or where MPI can't be
 * called by several threads. */
static gboolean start (GError **error)
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
  return started;
}

gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error)
{
  mpi.report = report;
  mpi.report_data = data;
  const gboolean started = start (error);
  *processes = started && mpi.self.n_ranks > 1 ? &mpi.self : NULL;
  return started;
}

/* The class's parts */

static Port *port_at (const PsTransport *base, guint device)
{
  const MpiTransport *transport = (const MpiTransport *)base;

  g_assert (device >= transport->setting.first && device - transport->setting.first < transport->setting.n_here);
  return &transport->ports[device - transport->setting.first];
}

/* The number of a device among the devices of all pipelines. */
static guint number_of (const PsTransport *base, guint device)
{
  const PsTransportSetting *setting = &((const MpiTransport *)base)->setting;

  return setting->pipeline * setting->n_devices + device;
}

/* Devices r n_here .. (r + 1) n_here - 1 belong to the process of rank r. */
static int rank_of (const MpiTransport *transport, guint number)
{
  return (int)(number / transport->setting.n_here);
}

/* B and BW hand on the same thing. */
static gboolean find_tag (const MpiTransport *transport, guint from, guint to, PsOp op, int *tag, GError **error)
{
  const PsTransportSetting *setting = &transport->setting;
  const guint n_stages = setting->n_stages > 0 ? setting->n_stages : MOST_STAGES;
  const guint n_slices = setting->n_slices > 0 ? setting->n_slices : MOST_SLICES;
  const guint kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;
  guint64 name = op.microbatch;

  g_assert (op.stage < n_stages && op.slice < n_slices);

  name = ((name * n_slices + op.slice) * n_stages + op.stage) * PS_N_OP_KINDS + kind;
  name = (name * setting->n_here + from % setting->n_here) * setting->n_here + to % setting->n_here + FIRST_TAG;
  *tag = (int)name;
  return name <= (guint64)mpi.greatest_tag
         || ps_refuse (error, PS_ERROR_UNAVAILABLE, "mpi transport: too many messages: MPI has tags up to %d",
                       mpi.greatest_tag);
}

/* A moment for wait_requests. */
static gint64 deadline (const MpiTransport *transport)
{
  return transport->setting.timeout_ns > 0 ? ps_clock_now () + transport->setting.timeout_ns : 0;
}

/* Errors */

static gboolean is_aborted (const MpiTransport *transport)
{
  return g_atomic_int_get (&transport->stopped);
}

/* A wait has ended without its message: cause (taken) is the error of MPI, NULL if there is none. Sums have no op of
 * their own. */
static gboolean fail_wait (const MpiTransport *transport, guint own, guint peer, PsOp op, gboolean sends, GError *cause,
                           GError **error)
{
  const guint n = transport->setting.n_devices;
  const double seconds = (double)transport->setting.timeout_ns / 1e9;
  char name[48] = "its share of a sum";

  if (cause != NULL) {
    g_propagate_error (error, cause);
    return FALSE;
  }
  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (op.kind != PS_OP_O)
    ps_op_format (op, name);
  if (sends)
    return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for device %u of rank %d to take %s", own % n,
                      seconds, peer % n, rank_of (transport, peer), name);
  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for %s from device %u of rank %d", own % n, seconds,
                    name, peer % n, rank_of (transport, peer));
}

/* Frees the messages that have been sent, up to the first one that has not. By the device's thread. */
static gboolean free_sent (Port *port, GError **error)
{
  Message *oldest;
  gboolean done = TRUE, fine = TRUE;

  while (fine && done && (oldest = g_queue_peek_head (&port->sends)) != NULL) {
    fine = test_requests (oldest->requests, 2, &done, error);
    if (done)
      message_free (g_queue_pop_head (&port->sends));
  }
  return fine;
}

/* The class's hooks */

/* Name and version; the rest of the text says who has built it. */
static char *mpi_libraries (void)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length;

  MPI_Get_library_version (text, &length); /* may be called at any time, by any thread */
  text[strcspn (text, ",\r\n")] = '\0';
  return g_strdup (text);
}

static const PsTransportClass mpi_class;

static PsTransport *mpi_open (const PsTransportSetting *setting, GError **error)
{
  if (setting->message_bytes > G_MAXINT)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE,
                           "mpi transport: messages of %" G_GSIZE_FORMAT " B; MPI takes at most %d",
                           setting->message_bytes, G_MAXINT);
  if (!start (error))
    return NULL;
  MpiTransport *transport = g_new0 (MpiTransport, 1);
  *transport = (MpiTransport){ .base.class = &mpi_class, .setting = *setting, .ports = g_new0 (Port, setting->n_here) };
  for (guint i = 0; i < setting->n_here; i++) {
    transport->ports[i].own = number_of (&transport->base, setting->first + i);
    pthread_mutex_init (&transport->ports[i].lock, NULL);
  }
  set_open (transport, TRUE);
  return &transport->base;
}

/* Gives up what is left of all ports. FALSE: MPI may still read from their memory and write there. */
static gboolean give_up_all (MpiTransport *transport)
{
  g_autoptr (GArray) requests = g_array_new (FALSE, FALSE, sizeof (MPI_Request));
  guint n_receives = 0;

  for (guint sends = 0; sends <= 1; sends++)
    for (guint i = 0; i < transport->setting.n_here; i++) {
      const GQueue *queue = sends ? &transport->ports[i].sends : &transport->ports[i].receives;

      for (const GList *link = queue->head; link != NULL; link = link->next)
        g_array_append_vals (requests, ((const Message *)link->data)->requests, 2);
      n_receives = sends ? n_receives : requests->len;
    }
  return give_up ((MPI_Request *)(gpointer)requests->data, n_receives, requests->len);
}

static void mpi_close (PsTransport *base)
{
  MpiTransport *transport = (MpiTransport *)base;

  if (transport == NULL)
    return;
  set_open (transport, FALSE);
  if (!give_up_all (transport))
    return; /* the process is about to end */
  for (guint i = 0; i < transport->setting.n_here; i++) {
    Port *port = &transport->ports[i];

    g_queue_clear_full (&port->receives, (GDestroyNotify)message_free);
    g_queue_clear_full (&port->sends, (GDestroyNotify)message_free);
    pthread_mutex_destroy (&port->lock);
    g_free (port->in);
    g_free (port->end.staged);
  }
  g_free (transport->ports);
  g_free (transport);
}

static gboolean mpi_join (PsTransport *base, guint at, PsDevice *device, GError **error)
{
  prctl (PR_SET_TIMERSLACK, 1); /* naps are shorter than the usual slack */
  port_at (base, at)->end.device = device;
  return TRUE;
}

/* Bytes of other memory than the host's are read at once. */
static gboolean mpi_send (PsTransport *base, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns,
                          GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, from);
  const gint64 now_ns = ps_clock_now ();
  g_autoptr (Message) message = message_new (number_of (base, to), op, tensor);
  int rank = rank_of (transport, message->name.peer), tag;

  g_assert (tensor->bytes <= transport->setting.message_bytes);

  message->times.sent_ns = now_ns + transport->setting.clock_offset_ns;
  message->times.due_ns = message->times.sent_ns + delay_ns;
  message->times.late_ns = tensor->ready_ns > 0 ? now_ns - tensor->ready_ns : 0;
  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (tensor->bytes > 0 && tensor->device->class->read != NULL) {
    message->copy = g_malloc (tensor->bytes);
    if (!tensor->device->class->read (tensor, message->copy, error))
      return FALSE;
  }
  if (!free_sent (port, error) || !find_tag (transport, port->own, message->name.peer, op, &tag, error)
      || !begin_send (&message->times, sizeof message->times, rank, tag, &message->requests[0], error))
    return FALSE;
  Message *under_way = g_steal_pointer (&message);
  g_queue_push_tail (&port->sends, under_way);
  return tensor->bytes == 0
         || begin_send (bytes_of (under_way), tensor->bytes, rank, tag, &under_way->requests[1], error);
}

static gboolean mpi_receive (PsTransport *base, guint at, guint from, PsOp op, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, at);
  const PsDeviceClass *class = port->end.device->class;
  const guint peer = number_of (base, from);
  int rank = rank_of (transport, peer), tag;
  char name[48];

  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (!find_tag (transport, peer, port->own, op, &tag, error))
    return FALSE;
  PsTensor *tensor = class->tensor_new (port->end.device);
  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory to receive %s", op.stage,
                      ps_op_format (op, name));
  Message *message = message_new (peer, op, tensor);
  if (tensor->bytes > 0 && class->write != NULL)
    message->copy = g_malloc (tensor->bytes);
  pthread_mutex_lock (&port->lock);
  g_queue_push_tail (&port->receives, message);
  gboolean begun = begin_receive (&message->times, sizeof message->times, rank, tag, &message->requests[0], error)
                   && (tensor->bytes == 0
                       || begin_receive (bytes_of (message), tensor->bytes, rank, tag, &message->requests[1], error));
  pthread_mutex_unlock (&port->lock);
  return begun;
}

/* Sleeps until a message may be used, or the run is aborted. */
static gboolean await_due (const MpiTransport *transport, gint64 due_ns, GError **error)
{
  while (ps_clock_now () < due_ns && !is_aborted (transport))
    ps_clock_sleep_until (MIN (due_ns, ps_clock_now () + LONGEST_NAP_NS));
  return !is_aborted (transport) || ps_refuse_aborted (error);
}

/* The message, which has come; NULL: it has not in time. */
static Message *await_message (MpiTransport *transport, Port *port, guint peer, PsOp op, GError **error)
{
  const guint n = transport->setting.n_devices;
  GError *cause = NULL;

  pthread_mutex_lock (&port->lock);
  Message *message = ps_message_take (&port->receives, peer, op);
  pthread_mutex_unlock (&port->lock);
  if (message == NULL && !is_aborted (transport))
    return ps_refuse_unannounced (port->own % n, peer % n, op, error);
  if (message == NULL) {
    ps_refuse_aborted (error);
    return NULL;
  }
  if (message->came_ns > 0)
    return message;
  if (wait_requests (message->requests, 2, deadline (transport), transport, &cause)) {
    message->came_ns = ps_clock_now ();
    return message;
  }
  pthread_mutex_lock (&port->lock);
  g_queue_push_tail (&port->receives, message); /* MPI may write to it until the transport is closed */
  pthread_mutex_unlock (&port->lock);
  fail_wait (transport, port->own, peer, op, FALSE, cause, error);
  return NULL;
}

static PsTensor *mpi_wait (PsTransport *base, guint at, guint from, PsOp op, PsDevice *into, PsTransferTimes *times,
                           GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  const gint64 called_ns = ps_clock_now (), offset_ns = transport->setting.clock_offset_ns;
  g_autoptr (Message) message = await_message (transport, port_at (base, at), number_of (base, from), op, error);

  if (message == NULL)
    return NULL;
  PsTensor *tensor = message->tensor;
  const gint64 ready_ns = MAX (message->came_ns, message->times.due_ns - offset_ns);
  if (!await_due (transport, ready_ns, error)
      || (message->copy != NULL && !into->class->write (tensor, message->copy, error)))
    return NULL;
  /* A message that was there before anybody asked is not longer on its way because its receiver is busy. */
  tensor->ready_ns = MAX (message->came_ns, ready_ns - message->times.late_ns);
  *times = (PsTransferTimes){ .start_ns = message->times.sent_ns - offset_ns,
                              .end_ns = ready_ns >= called_ns ? ps_clock_now () : ready_ns };
  return g_steal_pointer (&message->tensor);
}

static gboolean mpi_flush (PsTransport *base, guint from, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, from);
  const gint64 until_ns = deadline (transport);
  GError *cause = NULL;
  Message *oldest;

  while ((oldest = g_queue_peek_head (&port->sends)) != NULL) {
    if (!wait_requests (oldest->requests, 2, until_ns, transport, &cause))
      return fail_wait (transport, port->own, oldest->name.peer, oldest->name.op, TRUE, cause, error);
    message_free (g_queue_pop_head (&port->sends));
  }
  return !is_aborted (transport) || ps_refuse_aborted (error);
}

static void mpi_abort (PsTransport *base)
{
  g_atomic_int_set (&((MpiTransport *)base)->stopped, TRUE);
}

/* PsPassHook: sends one share and receives another one. Messages to other devices may be under way meanwhile: these may
 * wait for this sum before they take them. The memory is the caller's, so after a failure MPI gives it back. */
static gboolean pass_on (PsTransport *base, const PsPass *pass, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, pass->own - transport->setting.pipeline * transport->setting.n_devices);
  MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
  const int next = rank_of (transport, pass->next), previous = rank_of (transport, pass->previous);
  GError *cause = NULL;
  gboolean came;
  int tag;

  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (pass->adds && port->n_in < pass->n_taken)
    port->in = g_renew (float, port->in, pass->n_taken);
  port->n_in = MAX (port->n_in, pass->adds ? pass->n_taken : 0);
  float *taken = pass->adds ? port->in : pass->taken;
  if (find_tag (transport, pass->previous, pass->own, ps_sum_message, &tag, &cause)
      && begin_receive (taken, pass->n_taken * sizeof *taken, previous, tag, &requests[0], &cause)
      && find_tag (transport, pass->own, pass->next, ps_sum_message, &tag, &cause)
      && begin_send (pass->given, pass->n_given * sizeof *taken, next, tag, &requests[1], &cause)
      && wait_requests (requests, 2, deadline (transport), transport, &cause)) {
    for (gsize i = 0; pass->adds && i < pass->n_taken; i++)
      pass->taken[i] += taken[i];
    return TRUE;
  }
  came = requests[0] == MPI_REQUEST_NULL || (test_requests (requests, 1, &came, NULL) && came);
  fail_wait (transport, pass->own, came ? pass->next : pass->previous, ps_sum_message, came, cause, error);
  give_up (requests, 1, 2);
  return FALSE;
}

static gboolean mpi_sum (PsTransport *base, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                         GError **error)
{
  const PsCircle circle = ps_circle_of (&((MpiTransport *)base)->setting, at, kind);

  return ps_circle_sum (base, &circle, pass_on, &port_at (base, at)->end, halves, values, n, error);
}

static const PsTransportClass mpi_class = {
  .name = "mpi",
  .description = "MPI between processes",
  .spans_processes = TRUE,
  .splits_sums = TRUE,
  .libraries = mpi_libraries,
  .open = mpi_open,
  .close = mpi_close,
  .join = mpi_join,
  .send = mpi_send,
  .receive = mpi_receive,
  .wait = mpi_wait,
  .flush = mpi_flush,
  .sum = mpi_sum,
  .abort = mpi_abort,
};

const PsTransportClass *ps_mpi_transport_class (void)
{
  return &mpi_class;
}

const guint64 ps_module_stamp = PS_MODULE_STAMP;
