/* program.h - a schedule lowered for a machine: per device a stream of ops, sends, receives and waits; one dense table
 * of all ops in an order that respects every dependency; and the messages between devices. The executor walks the
 * streams, the engines walk the table. */
#ifndef PIPESIM_PROGRAM_H
#define PIPESIM_PROGRAM_H

#include <pipesim/schedule.h>

G_BEGIN_DECLS

typedef enum {
  PS_INSTRUCTION_COMPUTE, /* run op */
  PS_INSTRUCTION_SEND,    /* start sending op's result to peer; does not block */
  PS_INSTRUCTION_RECEIVE, /* start receiving op's result from peer; does not block */
  PS_INSTRUCTION_WAIT,    /* block until the receive of op's result from peer is done */
} PsInstructionType;

/* For send, receive and wait `op` is the producer: F of stage s stands for the activation that goes to stage s + 1, B
 * (also when the producer is a BW) for the gradient that goes to stage s - 1. */
typedef struct {
  guint16 type;    /* PsInstructionType */
  guint16 peer;    /* the other device; own device for compute */
  guint32 message; /* 1 + index into PsProgram.messages; 0 for compute */
  PsOp op;
} PsInstruction;

/* Whether it is a send or a receive. */
static inline gboolean ps_instruction_is_post (const PsInstruction *instruction)
{
  return instruction->type == PS_INSTRUCTION_SEND || instruction->type == PS_INSTRUCTION_RECEIVE;
}

/* One op as the engines see it, 16 bytes; its index in the table is its id. */
typedef struct {
  guint32 previous; /* 1 + id of the op before it on its device; 0 = none */
  guint32 input; /* 1 + id of the op whose result comes from another device; 0 = none. Inputs from the own device come
                    earlier in its order. */
  guint32 cost;  /* index into PsCosts.op */
  guint16 transfer; /* index into PsCosts.transfer_ns */
  guint16 device;
} PsStep;

/* One transfer between two devices. */
typedef struct {
  PsOp op;          /* the producer's name: F, or B also where a BW makes the result */
  guint32 producer; /* step at whose end the result exists; of a pair its second */
  guint32 consumer; /* step that waits for the result */
  guint32 posted;   /* 1 + step after which the receiver comes to its receive, of a pair its second; 0: before its
                       first op */
  guint16 sender;   /* device */
  guint16 receiver; /* device */
} PsMessage;

/* Where the two ends of a message stand in the streams. */
typedef struct {
  guint32 send;    /* instruction */
  guint32 receive; /* instruction */
} PsPlaces;

/* Where a step stands in an overlapped pair. */
typedef enum {
  PS_PAIR_NONE,
  PS_PAIR_FIRST,  /* waits for its input, takes no time */
  PS_PAIR_SECOND, /* the next step after its first; takes the time of the whole pair, at whose end both results are
                     there */
} PsPairRole;

/* Where the sends and receives stand in the streams. A send stands after its producer in every order. */
typedef enum {
  PS_COMM_ASAP, /* PyTorch's lowering: one action of each device, again and again; a receive is posted when its producer
                   is ordered. Gathering and dropping a stage's weights and reducing its gradients are actions, too, as
                   in 2.14, but have no instructions here. 2.15 has the wait for the reduction as an action as well, so
                   some receives stand elsewhere in its files, which keep their own */
  PS_COMM_DEFERRED, /* a receive is posted right before its consumer waits for it (PyTorch's defer_pp_recv) */
  PS_COMM_PLANNED,  /* one order of all transfers that every device keeps to: by their starts if every op took one unit
                       of time (a full backward two) and transfers none; ps_events_plan orders them for given costs and
                       channels */
} PsCommOrder;

/* The arrays by step and message lie in one block, which begins with steps. The streams lie in another, which begins
 * with instructions. */
typedef struct {
  PsSchedule *schedule; /* owned */
  PsCommOrder order;
  guint n_steps;
  PsStep *steps;    /* dependencies first; one step of each device, again and again */
  guint8 *pair;     /* [n_steps] PsPairRole; NULL when the schedule has no pairs */
  guint n_lengths;  /* different lengths of microbatches; 1: they are alike */
  guint32 *count;   /* [n_copies * PS_N_OP_KINDS * n_lengths * n_stages] ops of each weight copy by their index into
                       PsCosts.op */
  guint32 *step_of; /* [n_steps] id of ops[i] of the schedule */
  guint32 *op_of;   /* [n_steps] the reverse: index into schedule->ops of a step */
  guint n_messages;
  PsMessage *messages;         /* in the order of their producers; the order of sends and receives does not change it */
  guint32 *message_of;         /* [n_steps] 1 + the message that a step waits for; 0 = none */
  guint *first;                /* [n_devices + 1] into instructions */
  PsInstruction *instructions; /* the streams; NULL: not made yet (ps_program_lower_steps) */
  PsPlaces *places;            /* [n_messages]; NULL as instructions */
  guint *peak_activations; /* [n_devices] most (stage, microbatch) pairs alive at once, from F's start to the end of W
                              or BW */
} PsProgram;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_comm_order_name (PsCommOrder order); /* "asap", "deferred", "planned" */
gboolean ps_comm_order_parse (const char *where, const char *text, PsCommOrder *order, GError **error);

/* Lowers a valid schedule; takes ownership of it, also on failure. The schedule's own sends and receives (posts) stay
 * where they are, whatever `order` says; ps_program_check finds whether they can run. With asap and planned any two
 * devices see their common transfers in one order, and the program cannot deadlock even if each device has a single
 * in-order channel. With deferred it may deadlock, which ps_program_check finds. Fails with PS_ERROR_SCHEDULE if the
 * orders of the devices wait for each other in a circle, naming the ops of the circle. */
PsProgram *ps_program_lower (PsSchedule *schedule, PsCommOrder order, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Lowers in the same way, but may leave the streams out. They take half the time and half the memory, and the
 * relaxation engine, metrics and timelines need none. ps_program_add_streams makes them later. */
PsProgram *ps_program_lower_steps (PsSchedule *schedule, PsCommOrder order, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Makes the streams where they were left out; the program is then as from ps_program_lower. */
void ps_program_add_streams (PsProgram *program);

/* Gives the microbatches lengths: n_lengths different ones, length [ps_schedule_cell] is copied. The costs
 * that the program runs with must have as many lengths. Lowering does it where the schedule has lengths. */
void ps_program_set_lengths (PsProgram *program, guint n_lengths, const guint16 *length);

/* Lowers as PS_COMM_DEFERRED, but the receives of earlier messages from the same sender stand before a receive.
 * Transports without tags need this: the k-th send of a device to another meets the k-th receive there, and in a V
 * activations and gradients go in the same direction. */
PsProgram *ps_program_lower_untagged (PsSchedule *schedule, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_program_free (PsProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProgram, ps_program_free)

/* The instruction streams of one round of an endless run, in which no device waits for the others between iterations.
 * In an asynchronous schedule each device runs the forwards before its first backward one iteration ahead: one of them
 * follows each backward of its drain. The streams then begin with the first backward, and sends and receives stand as
 * PS_COMM_ASAP puts them. All other programs repeat their own streams. */
typedef struct {
  guint *first; /* [n_devices + 1] into instructions */
  PsInstruction *instructions;
  guint8 *ahead; /* [n_instructions] 1: for a microbatch of the next iteration; the run begins with these */
} PsRound;

PsRound *ps_round_new (const PsProgram *program);
void ps_round_free (PsRound *round);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRound, ps_round_free)

/* The index of an op of the schedule into PsCosts.op. */
static inline guint ps_program_cost (const PsProgram *program, PsOp op)
{
  const PsSchedule *schedule = program->schedule;
  guint length = schedule->length != NULL ? schedule->length[ps_schedule_cell (schedule, op)] : 0;

  return ps_op_index (schedule->placement->n_stages, program->n_lengths, op.kind, length, op.stage);
}

/* The op that makes the input of a step that has one: F, or B also where a BW makes it. */
static inline PsOp ps_program_producer (const PsProgram *program, guint step)
{
  g_assert (program->message_of[step] != 0);
  return program->messages[program->message_of[step] - 1].op;
}

/* How transfers share channels: the index of a row of ps_channel_table. Only rows that code names are listed here. */
typedef enum {
  PS_CHANNEL_LATENCY, /* no channels: transfers never queue */
  PS_CHANNEL_DIRECTION,
  PS_CHANNEL_PAIR,
  PS_CHANNEL_RANK,
} PsChannel;

typedef struct {
  const char *name;        /* "pair" */
  const char *description; /* "one in-order channel for each pair of devices" */
  const char *pytorch;     /* the setting of PyTorch that has these channels; NULL: none */
  /* A device's end of the channel that carries its sends to peer, or its receives from peer: any number below 2 * p.
   * The sends and receives of one end run in program order. NULL: no channels. */
  guint (*end) (guint peer, gboolean sends);
} PsChannelModel;

/* All models, by PsChannel. */
const PsChannelModel *ps_channel_table (guint *n);

/* Appends " latency (transfers never queue), ... or rank (...)", all models with their descriptions. */
void ps_channel_add_models (GString *text);

/* Names and back; errors as those of ps_parse_name. */
const char *ps_channel_name (PsChannel channel);
gboolean ps_channel_parse (const char *where, const char *text, PsChannel *channel, GError **error);

/* Runs the instruction streams without time under rendezvous semantics: a transfer happens when both devices have come
 * to it and it is the first in its channel on both ends. Checks also that every send stands after its op and has its
 * receive, and every wait its receive. Errors: PS_ERROR_SCHEDULE; a deadlock is explained as the circle of instructions
 * that wait for each other. */
gboolean ps_program_check (const PsProgram *program, PsChannel channel, GError **error);

/* "SEND", "RECEIVE", "WAIT"; "" for compute. */
const char *ps_instruction_verb (PsInstructionType type);

/* "SEND F3.1 to device 2": for messages. Free with g_free. */
char *ps_instruction_format (const PsInstruction *instruction);

G_END_DECLS

#endif
