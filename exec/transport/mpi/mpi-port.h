/* mpi-port.h - one device's place in the transport: the messages that it sends and the messages that it receives.
 *
 * Messages of up to PS_MPI_INLINE_BYTES travel in one letter, whether somebody wants them already or not. A longer one
 * stays with its sender until the receiver has made room for it and has granted it a tag. Then it goes from the
 * sender's memory straight to its place, and no MPI call ever waits for a message that may not come. */
#pragma once

#include "mpi-engine.h"

#include <pipesim/transport.h>

typedef struct _PsMpiPort PsMpiPort;

/* A message between two devices. */
typedef struct
{
  guint peer; /* the device at the other end, counted over all pipelines */
  PsOp op;
  void *data; /* n_bytes of host memory; NULL: none */
  gsize n_bytes;
  gboolean owned;   /* data are freed with the message */
  PsTensor *tensor; /* freed with the message by its device's class; NULL: none */
  gint64 sent_ns;   /* by the clock of all */
  gint64 due_ns;
  gint64 late_ns;
} PsMpiMessage;

typedef struct
{
  guint peer;
  PsOp op;
} PsMpiName;

/* The sending of a long message. */
typedef struct
{
  PsMpiTransfer transfer; /* first: the engine gives it back */
  PsMpiPort *port;
  PsMpiMessage message;
  gboolean granted;
} PsMpiJob;

/* A wanted message, or one that has come unannounced. */
typedef struct
{
  PsMpiTransfer transfer; /* first */
  PsMpiPort *port;
  PsMpiMessage message;
  gboolean announced;
  gboolean has_head; /* the letter about it has come */
  gboolean has_data;
  gint64 came_ns; /* when both were here, by the clock of this process */
} PsMpiReceipt;

struct _PsMpiPort
{
  guint own; /* number of the device over all pipelines */
  guint32 transport;
  guint n_here;     /* devices of each process: rank r has those from r n_here on */
  PsDevice *device; /* NULL until it has joined */
  pthread_cond_t changed;
  GArray *untaken;     /* of PsMpiName: messages sent that no receiver has taken, oldest first */
  GQueue jobs;         /* of PsMpiJob, oldest first */
  GQueue grants;       /* of PsMpiHead, for messages that are not sent yet */
  GQueue receipts;     /* of PsMpiReceipt, oldest first */
  GPtrArray *returned; /* tensors that have been sent, for the device's thread to free */
  float *staged;       /* numbers to be added up whose own memory is not the host's; NULL until there are any */
};

void ps_mpi_port_init (PsMpiPort *port, guint own, guint n_here);

/* Withdraws the transfers that are left and frees them; the transport takes no letters any more. */
void ps_mpi_port_clear (PsMpiPort *port);

void ps_mpi_message_clear (PsMpiMessage *message);

/* Sends a message; announces one, with room for it where it is long. Both take the memory that is freed with it.
 * Locked.
 */
void ps_mpi_port_send (PsMpiPort *port, const PsMpiMessage *message);
void ps_mpi_port_expect (PsMpiPort *port, const PsMpiMessage *message);

/* The oldest announced message of that name; NULL: none. It stays in the port. Locked. */
PsMpiReceipt *ps_mpi_port_find (const PsMpiPort *port, guint from, PsOp op);

gboolean ps_mpi_receipt_is_complete (const PsMpiReceipt *receipt);

/* Takes a complete message out of the port, and tells its sender. Free with ps_mpi_receipt_free. Locked. */
void ps_mpi_port_take (PsMpiPort *port, PsMpiReceipt *receipt);
void ps_mpi_receipt_free (PsMpiReceipt *receipt);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMpiReceipt, ps_mpi_receipt_free)

/* Whether all messages have been taken and their memory is given back; *late is the oldest one that has not. Locked. */
gboolean ps_mpi_port_is_flushed (const PsMpiPort *port, PsMpiName *late);

/* Whether no message of that name to that device is under way in memory of this process any more. Locked. */
gboolean ps_mpi_port_has_sent (const PsMpiPort *port, guint to, PsOp op);

/* Frees tensors that have been sent. By the device's thread. Locked. */
void ps_mpi_port_free_returned (PsMpiPort *port);

/* A letter for this device. Locked, by the thread that calls MPI. */
void ps_mpi_port_deliver (PsMpiPort *port, const PsMpiHead *head, const void *bytes);
