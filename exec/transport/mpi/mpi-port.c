/* mpi-port.c - matches messages with receives. */
#include "mpi-port.h"

#include "clock.h"
#include "transport/transports.h"

#include <string.h>

static void
tensor_free (PsTensor *tensor)
{
  tensor->device->class->tensor_free (tensor);
}

void
ps_mpi_port_init (PsMpiPort *port, guint own, guint n_here)
{
  port->own = own;
  port->n_here = n_here;
  ps_clock_condition_init (&port->changed);
  g_queue_init (&port->jobs);
  g_queue_init (&port->grants);
  g_queue_init (&port->receipts);
  port->untaken = g_array_new (FALSE, FALSE, sizeof (PsMpiName));
  port->returned = g_ptr_array_new_with_free_func ((GDestroyNotify)tensor_free);
}

void
ps_mpi_message_clear (PsMpiMessage *message)
{
  if (message->owned)
    g_free (message->data);
  if (message->tensor != NULL)
    tensor_free (message->tensor);
  *message = (PsMpiMessage){ 0 };
}

void
ps_mpi_receipt_free (PsMpiReceipt *receipt)
{
  if (receipt == NULL)
    return;
  ps_mpi_message_clear (&receipt->message);
  g_free (receipt);
}

static void
job_free (PsMpiJob *job)
{
  ps_mpi_message_clear (&job->message);
  g_free (job);
}

static int
rank_of (const PsMpiPort *port, guint device)
{
  return (int)(device / port->n_here);
}

/* All transfers of the port. */
static GPtrArray *
collect_transfers (const PsMpiPort *port)
{
  GPtrArray *transfers = g_ptr_array_new ();

  for (const GList *link = port->jobs.head; link != NULL; link = link->next)
    g_ptr_array_add (transfers, link->data);
  for (const GList *link = port->receipts.head; link != NULL; link = link->next)
    g_ptr_array_add (transfers, link->data);
  return transfers;
}

void
ps_mpi_port_clear (PsMpiPort *port)
{
  g_autoptr (GPtrArray) transfers = collect_transfers (port);
  guint n_kept = ps_mpi_withdraw ((PsMpiTransfer **)transfers->pdata, transfers->len);

  /* MPI may still write there or read from there; the process is about to end. */
  for (guint i = 0; i < n_kept; i++)
    {
      g_queue_remove (&port->jobs, g_ptr_array_index (transfers, i));
      g_queue_remove (&port->receipts, g_ptr_array_index (transfers, i));
    }
  g_queue_clear_full (&port->jobs, (GDestroyNotify)job_free);
  g_queue_clear_full (&port->receipts, (GDestroyNotify)ps_mpi_receipt_free);
  g_queue_clear_full (&port->grants, g_free);
  g_ptr_array_unref (port->returned);
  g_array_unref (port->untaken);
  if (n_kept == 0)
    g_free (port->staged);
  pthread_cond_destroy (&port->changed);
}

static void
post_letter (const PsMpiPort *port, PsMpiKind kind, const PsMpiMessage *message, int tag, gsize n_bytes)
{
  gboolean sends = kind == PS_MPI_DATA;
  PsMpiHead head = { .kind = kind,
                     .transport = port->transport,
                     .from = sends ? port->own : message->peer,
                     .to = sends ? message->peer : port->own,
                     .op = message->op,
                     .tag = tag,
                     .n_bytes = (guint32)n_bytes,
                     .sent_ns = message->sent_ns,
                     .due_ns = message->due_ns,
                     .late_ns = message->late_ns };

  ps_mpi_post_letter (rank_of (port, message->peer), &head, message->data);
}

static gboolean
is_long (const PsMpiMessage *message)
{
  return message->n_bytes > PS_MPI_INLINE_BYTES;
}

/* Sent or landed. */
static void
job_done (PsMpiTransfer *transfer)
{
  PsMpiJob *job = (PsMpiJob *)transfer;
  PsMpiPort *port = job->port;

  g_queue_remove (&port->jobs, job);
  if (job->message.tensor != NULL)
    g_ptr_array_add (port->returned, g_steal_pointer (&job->message.tensor));
  job_free (job);
  pthread_cond_broadcast (&port->changed);
}

static void
start_job (PsMpiJob *job, int tag)
{
  PsMpiPort *port = job->port;
  const PsMpiMessage *message = &job->message;

  job->granted = TRUE;
  job->transfer = (PsMpiTransfer){ .rank = rank_of (port, message->peer),
                                   .tag = tag,
                                   .data = message->data,
                                   .n_bytes = message->n_bytes,
                                   .done = job_done };
  post_letter (port, PS_MPI_DATA, message, tag, 0);
  ps_mpi_post (&job->transfer);
  ps_mpi_moves (&job->transfer);
}

/* The oldest grant for the message, taken out; NULL: there is none. */
static PsMpiHead *
take_grant (PsMpiPort *port, const PsMpiMessage *message)
{
  for (GList *link = port->grants.head; link != NULL; link = link->next)
    {
      PsMpiHead *grant = link->data;

      if (grant->to != message->peer || ps_message_key (grant->op) != ps_message_key (message->op))
        continue;
      g_queue_delete_link (&port->grants, link);
      return grant;
    }
  return NULL;
}

static void
send_long (PsMpiPort *port, const PsMpiMessage *message)
{
  PsMpiJob *job = g_new0 (PsMpiJob, 1);
  g_autofree PsMpiHead *grant = take_grant (port, message);

  job->port = port;
  job->message = *message;
  g_queue_push_tail (&port->jobs, job);
  if (grant != NULL)
    start_job (job, grant->tag);
}

void
ps_mpi_port_send (PsMpiPort *port, const PsMpiMessage *message)
{
  const PsMpiName name = { .peer = message->peer, .op = message->op };
  PsMpiMessage copied = *message;

  g_array_append_val (port->untaken, name);
  if (is_long (message))
    {
      send_long (port, message);
      return;
    }
  post_letter (port, PS_MPI_DATA, message, 0, message->n_bytes);
  ps_mpi_message_clear (&copied);
}

gboolean
ps_mpi_receipt_is_complete (const PsMpiReceipt *receipt)
{
  return receipt->has_head && receipt->has_data;
}

static void
note_arrival (PsMpiReceipt *receipt)
{
  if (!ps_mpi_receipt_is_complete (receipt))
    return;
  receipt->came_ns = ps_clock_now ();
  pthread_cond_broadcast (&receipt->port->changed);
}

static void
receipt_done (PsMpiTransfer *transfer)
{
  PsMpiReceipt *receipt = (PsMpiReceipt *)transfer;

  receipt->has_data = TRUE;
  note_arrival (receipt);
}

static PsMpiReceipt *
receipt_new (PsMpiPort *port, const PsMpiMessage *message)
{
  PsMpiReceipt *receipt = g_new0 (PsMpiReceipt, 1);

  receipt->port = port;
  receipt->message = *message;
  g_queue_push_tail (&port->receipts, receipt);
  return receipt;
}

/* The oldest receipt of that name that is announced or not, and whose letter has come or not (-1: either). */
static PsMpiReceipt *
find_receipt (const PsMpiPort *port, guint from, PsOp op, gboolean announced, int has_head)
{
  guint64 key = ps_message_key (op);

  for (const GList *link = port->receipts.head; link != NULL; link = link->next)
    {
      PsMpiReceipt *receipt = link->data;

      if (receipt->message.peer == from && receipt->announced == announced
          && (has_head < 0 || receipt->has_head == has_head) && ps_message_key (receipt->message.op) == key)
        return receipt;
    }
  return NULL;
}

void
ps_mpi_port_expect (PsMpiPort *port, const PsMpiMessage *message)
{
  PsMpiReceipt *receipt = find_receipt (port, message->peer, message->op, FALSE, TRUE);

  if (receipt == NULL)
    receipt = receipt_new (port, message);
  receipt->announced = TRUE;
  if (!is_long (message))
    return;
  receipt->transfer = (PsMpiTransfer){ .incoming = TRUE,
                                       .rank = rank_of (port, message->peer),
                                       .tag = ps_mpi_new_tag (),
                                       .data = message->data,
                                       .n_bytes = message->n_bytes,
                                       .done = receipt_done };
  ps_mpi_post (&receipt->transfer);
  post_letter (port, PS_MPI_GRANT, message, receipt->transfer.tag, 0);
}

PsMpiReceipt *
ps_mpi_port_find (const PsMpiPort *port, guint from, PsOp op)
{
  return find_receipt (port, from, op, TRUE, -1);
}

void
ps_mpi_port_take (PsMpiPort *port, PsMpiReceipt *receipt)
{
  g_queue_remove (&port->receipts, receipt);
  post_letter (port, PS_MPI_TAKEN, &receipt->message, 0, 0);
}

gboolean
ps_mpi_port_is_flushed (const PsMpiPort *port, PsMpiName *late)
{
  const PsMpiJob *job = port->jobs.head != NULL ? port->jobs.head->data : NULL;

  if (port->untaken->len > 0)
    *late = g_array_index (port->untaken, PsMpiName, 0);
  else if (job != NULL)
    *late = (PsMpiName){ .peer = job->message.peer, .op = job->message.op };
  return port->untaken->len == 0 && job == NULL;
}

gboolean
ps_mpi_port_has_sent (const PsMpiPort *port, guint to, PsOp op)
{
  for (const GList *link = port->jobs.head; link != NULL; link = link->next)
    {
      const PsMpiMessage *message = &((const PsMpiJob *)link->data)->message;

      if (message->peer == to && ps_message_key (message->op) == ps_message_key (op))
        return FALSE;
    }
  return TRUE;
}

void
ps_mpi_port_free_returned (PsMpiPort *port)
{
  g_ptr_array_set_size (port->returned, 0);
}

/* The data came along in the letter. */
static void
keep_bytes (PsMpiReceipt *receipt, const PsMpiHead *head, const void *bytes)
{
  receipt->message.n_bytes = head->n_bytes;
  receipt->message.data = head->n_bytes > 0 ? g_memdup2 (bytes, head->n_bytes) : NULL;
  receipt->message.owned = TRUE;
  receipt->has_data = TRUE;
}

static PsMpiReceipt *
find_tag (const PsMpiPort *port, int tag)
{
  for (const GList *link = port->receipts.head; link != NULL; link = link->next)
    if (((PsMpiReceipt *)link->data)->transfer.tag == tag)
      return link->data;
  return NULL;
}

static void
take_data (PsMpiPort *port, const PsMpiHead *head, const void *bytes)
{
  PsMpiMessage message = { .peer = head->from, .op = head->op };
  PsMpiReceipt *receipt
      = head->tag != 0 ? find_tag (port, head->tag) : find_receipt (port, head->from, head->op, TRUE, FALSE);

  if (receipt == NULL && head->tag != 0)
    return; /* withdrawn */
  if (receipt == NULL)
    receipt = receipt_new (port, &message);
  receipt->has_head = TRUE;
  receipt->message.sent_ns = head->sent_ns;
  receipt->message.due_ns = head->due_ns;
  receipt->message.late_ns = head->late_ns;
  if (head->tag == 0)
    keep_bytes (receipt, head, bytes);
  else
    ps_mpi_moves (&receipt->transfer);
  note_arrival (receipt);
}

static void
take_permission (PsMpiPort *port, const PsMpiHead *head)
{
  for (GList *link = port->jobs.head; link != NULL; link = link->next)
    {
      PsMpiJob *job = link->data;

      if (!job->granted && job->message.peer == head->to
          && ps_message_key (job->message.op) == ps_message_key (head->op))
        {
          start_job (job, head->tag);
          return;
        }
    }
  g_queue_push_tail (&port->grants, g_memdup2 (head, sizeof *head));
}

static void
note_taken (PsMpiPort *port, const PsMpiHead *head)
{
  for (guint i = 0; i < port->untaken->len; i++)
    {
      const PsMpiName *name = &g_array_index (port->untaken, PsMpiName, i);

      if (name->peer != head->to || ps_message_key (name->op) != ps_message_key (head->op))
        continue;
      g_array_remove_index (port->untaken, i);
      return;
    }
}

void
ps_mpi_port_deliver (PsMpiPort *port, const PsMpiHead *head, const void *bytes)
{
  switch ((PsMpiKind)head->kind)
    {
    case PS_MPI_DATA:
      take_data (port, head, bytes);
      break;
    case PS_MPI_GRANT:
      take_permission (port, head);
      break;
    case PS_MPI_TAKEN:
      note_taken (port, head);
      pthread_cond_broadcast (&port->changed);
      break;
    case PS_MPI_FAILED: /* and the others are no letters for ports */
    case PS_MPI_ASKED:
    case PS_MPI_ANSWER:
      break;
    }
}
