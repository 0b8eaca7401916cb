/* formats.h - schedules and timelines in the formats of other programs: read, written, and checked for what those
 * programs would do wrong with them.
 *
 * - native: the file of schedule.h.
 *
 * - torch-compute: CSV of torch.distributed.pipelining (PyTorch 2.14 and 2.15, _load_csv format="compute_only"), a line
 *   per rank, a cell per action, CRLF when written. A cell is STAGE TYPE MICROBATCH, such as "0F3", or a pair
 *   "(0F7;7B3)OVERLAP_F_B". Type F is our F, I our B, B our BW, W our W. Empty cells are idle time; an order does not
 *   hold it, so they are ignored.
 *
 * - torch-comms: the same with everything that runtime executes ("compute_comms"). UNSHARD and RESHARD come before and
 *   after the use of a stage's weights (three stages at most at a time), REDUCE_GRAD after the last backward of a
 *   stage. SEND_F, RECV_F, SEND_B, RECV_B stand where neighbouring stages lie on different ranks; "0SEND_F3" meets
 *   "1RECV_F3". A WAIT_SEND_F or WAIT_SEND_B follows every send and a WAIT_REDUCE_GRAD every REDUCE_GRAD: PyTorch 2.15
 *   wants them.
 *
 *   Written as PyTorch 2.15 lowers: one action of each rank, again and again. A send follows its producer, and its
 *   receive is appended to the other rank's list at the same moment. A program keeps its own order; weights are
 *   gathered before the ops that need them.
 *
 *   Reading keeps all actions of the file as the posts of the schedule (schedule.h), and writing gives the same bytes
 *   back. Simulation follows the sends and receives where transfers share channels; waits and weights take no time.
 *   PyTorch's messages carry no tag: a file whose receives from a rank are not in the order of its sends is refused.
 *
 * - torch-comms-2.14: the same without waits, as PyTorch 2.14 reads and lowers. Neither release loads the other's.
 *
 * - colossalai: JSON of ColossalAI's and veScale's scheduled nodes: an array per device of {"type", "chunk", "stage",
 *   "minibatch"}. stage is the device; chunk counts the stages of the device in model order. Types are F, B, W, BW (so
 *   named in the zero-bubble repository; ColossalAI itself splits every backward), SEND_FORWARD, RECV_FORWARD,
 *   SEND_BACKWARD, RECV_BACKWARD. Transfers are written where neighbouring stages lie on different devices, as our own
 *   lowering orders them. Reading also takes the keys start_time, completion_time, rollback and comm_id and the types
 *   LOCAL_FORWARD, LOCAL_BACKWARD and *POST_VALIDATION, which add nothing to the order. The placement is the one of
 *   loop, V and wave that has the transfers of the file. A file without transfers has V for two chunks (as ColossalAI
 *   runs), or loop where the order deadlocks in a V.
 *
 * - chrome-trace: the timeline of a simulation (timeline.h), unit costs where none are given. Written only.
 *
 * Readers are strict where those programs are sloppy: text after an action, duplicates, missing microbatches, a stage
 * on two ranks and empty lines are errors. Errors: PS_ERROR_INPUT "FILE:ROW:CELL: ..." in a CSV, both counted from 1.
 */
#ifndef PIPESIM_FORMATS_H
#define PIPESIM_FORMATS_H

#include <pipesim/base.h>
#include <pipesim/timeline.h>

G_BEGIN_DECLS

typedef struct {
  const char *name; /* as typed: "torch-compute" */
  const char *description;
  /* TRUE: a text looks like this format and is read as it. NULL: never read. */
  gboolean (*recognise) (const char *text, gsize length);
  /* Reads a schedule; where names the text in messages. Not yet validated. */
  PsSchedule *(*read) (const char *where, const char *text, gsize length, GError **error);
  /* Writes a valid schedule. PS_ERROR_SCHEDULE names the part that the format cannot hold. */
  char *(*write) (const PsSchedule *schedule, GError **error);
  /* The same with the sends and receives where the program has them; write puts them where PS_COMM_ASAP has them. NULL:
   * the format holds none. */
  char *(*write_program) (const PsProgram *program, GError **error);
  /* For a format that shows times: write uses unit costs. NULL: the format shows none. */
  char *(*write_timeline) (const PsTimeline *timeline);
} PsFormat;

/* All formats in the order in which they are asked to recognise a text; *n entries. */
const PsFormat *const *ps_format_table (guint *n);

/* The format of that name. Errors: PS_ERROR_USAGE listing all names. */
const PsFormat *ps_format_find (const char *name, GError **error);

/* The format that a text is in. Errors: PS_ERROR_INPUT. */
const PsFormat *ps_format_recognise (const char *where, const char *text, gsize length, GError **error);

/* Reads a schedule file of any format that can be read. Where the file does not say where it comes from, its origin is
 * "read from PATH (FORMAT)". Not yet validated. */
PsSchedule *ps_format_read (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The name of an op in PyTorch, "0F3"; its profiler's ranges are named "PP:0F3". NULL for R and O, which PyTorch has
 * not. Free with g_free. */
char *ps_torch_op_name (PsOp op);

/* What a program does with an exported schedule. */
typedef struct {
  gboolean refused;   /* an error: it would refuse the schedule, stop, or compute another result; FALSE: a warning */
  char *what;         /* one line */
  const char *advice; /* what to do about it; NULL: what says it */
} PsFinding;

/* A list of them. Free with g_ptr_array_unref. */
GPtrArray *ps_findings_new (void);

/* Adds one with a text as of printf. */
void ps_finding_add (GPtrArray *findings, gboolean refused, const char *advice, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

/* Findings (PsFinding) about a valid schedule that is exported as torch-compute or torch-comms: what PyTorch's runtime
 * would refuse or do wrong, or torchtitan, which loads its stages by schedule name. comms is the torch-comms
 * text written of it. NULL: the text that would be written. Free with g_ptr_array_unref. */
GPtrArray *ps_torch_lint (const PsSchedule *schedule, const char *comms) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a torch-comms text of either release as it stands: its own receives, REDUCE_GRADs and UNSHARDs. Findings
 * include a deadlock with one communicator per direction, per pair of ranks, or per rank. NULL and an error where the
 * text cannot be read. */
GPtrArray *ps_torch_lint_comms (const char *where, const char *text, gsize length,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Every complete iteration of the run whose traces are at path, in order: a list of PsTimeline, never empty. path is a
 * file of any of these kinds (docs/traces.md says how to record them):
 *
 * - pipesim-timeline/1: the native one (timeline.h).
 *
 * - Chrome trace: as ps_timeline_to_chrome_trace writes it; predicted or measured as its process name says.
 *
 * - PyTorch profiler: Kineto traces whose ranges "PP:0F0", "PP:(0F7;7B3)OVERLAP_F_B" are the actions of a rank;
 *   measured. Where no range has a name like that, "Forward 0" and "Backward 0" of ScheduleGPipe count, of the stage
 *   with the rank's number. Where there is none either, Megatron-LM's "forward_step", "forward-compute" and the same of
 *   backward count, which name neither stage nor microbatch: these follow from the order of 1F1B, of GPipe or of
 *   interleaved 1F1B (megatron/core/pipeline_parallel/schedules.py), with a BW for every backward.
 *
 *   Ranges on the GPU (category gpu_user_annotation) count if there are any, else those of the processor. On the
 *   processor a range also waits for its receive. So an op begins with the first cpu_op, on any thread, that begins
 *   inside its range. With GPipe it begins after the receive c10d::recv_ and ends with c10d::send. An op without a
 *   cpu_op takes no time, at the range's end. In a file without any cpu_op ranges count as they are.
 *
 *   The timeline's waits are then known: an op waits from its range's start until the range "gloo:recv" of its receive
 *   has ended, else until its first cpu_op. A wait holds the host's time for the call, so no wait is shorter than that.
 *   PyTorch 2.15's WAIT_SEND actions are waits, too. Posts are the SEND and RECV actions; where none is named, the c10d
 *   calls within ranges, or between them: those send for the range before and receive for the range after.
 *
 *   Ranks in one file are told by process, else by thread. With fewer ranks than distributedInfo.world_size, the
 *   timeline's remark says so.
 *
 * - Nsight Systems' SQLite export (its SQLite schema reference): NVTX ranges with these names; processes are ranks. An
 * op lasts from the first kernel that its range launched, from any thread, to the last one; without kernels it is the
 *   range. Kernels ncclDevKernel_SendRecv are ends of messages: those launched within a SEND or RECV action; without
 *   named actions, of the kernels between two ranges the first sends and the last receives. An op waits while its
 *   receive's kernel runs and the op before has ended.
 *
 * - OpenTelemetry spans of Megatron-LM, "megatron.microbatch.forward", later "nv.mcore.microbatch.forward", and the
 * same of backward: OTLP's JSON, one object after the other, or the objects of the Python SDK's console exporter. Times
 * are the host's. "megatron.p2p.recv_forward" and the like are waits, those of sends are posts.
 *
 * A range "Optimizer.step#..." or "...optimizer_step" after an iteration is O, in equal parts of the rank's stages.
 *
 * path may be a folder: its *.json, *.jsonl (packed: *.gz) or *.sqlite files are the traces of one run, one per rank.
 * The rank of a file is the one that it states, else the number after "rank" in its name, else its place by name. Ranks
 * that repeat an earlier rank's ops are left out, with a remark.
 *
 * An op that comes again begins a new iteration. Incomplete iterations are dropped. iteration_ns is from the first
 * start to the last end, and the longest O.
 *
 * No message may come before it was sent: its send's post, or else its producer's end, goes before the end of the wait
 * for it, or else before its consumer's start. Messages of both directions so bound the offset of each rank's clock to
 * earlier ranks. A clock within its bounds stays, another is shifted to their middle; bounds that contradict each other
 * give a remark. Transfers are those that the trace shows: both ends' kernels, from the later start on; or a device
 * that waited before the other posted its send, from the later post to the wait's end.
 *
 * Files may be packed by gzip, whatever their names. Only ranges and messages are kept of traces, so that their size
 * costs no memory but that of the mapped file; packed ones are read as they unpack. Packed timelines of pipesim are
 * unpacked as a whole. Files that hold more than 100 times their size are refused.
 *
 * Errors: PS_ERROR_IO, PS_ERROR_INPUT, also where ranks were recorded apart (PsTimeline.apart), which shows no
 * iteration; ps_observed_load takes their ops. Free with g_ptr_array_unref.
 */
GPtrArray *ps_timelines_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The timeline of the list with the median iteration_ns. Takes the list. Free with ps_timeline_free. */
PsTimeline *ps_timelines_median (GPtrArray *timelines) G_GNUC_WARN_UNUSED_RESULT;

/* The median one of ps_timelines_load. */
PsTimeline *ps_timeline_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Writes a timeline: as a Chrome trace where path ends in .trace.json, else as the native file. Either is packed as a
 * gzip file where path ends in .gz after that. Errors: PS_ERROR_IO. */
gboolean ps_timeline_write (const PsTimeline *timeline, const char *path, GError **error);

/* One file of a run in memory, packed by gzip or not. */
typedef struct {
  const char *name; /* in messages; may tell the rank */
  const char *text;
  gsize length;
} PsTraceFile;

/* ps_timelines_load of n > 0 files in memory, of any kind but Nsight Systems exports. */
GPtrArray *ps_timelines_parse (const char *where, const PsTraceFile *files, guint n,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Files of named arrays, as Hugging Face's safetensors writes them: the length of a JSON header in
 * eight bytes, the header, and the arrays one after the other (https://huggingface.co/docs/safetensors, "Format"). */

#define PS_TENSOR_MAX_DIMENSIONS 8

typedef struct {
  char *name;
  char *type; /* "F32", "BF16", ... */
  guint n_dimensions;
  gint64 shape[PS_TENSOR_MAX_DIMENSIONS];
  gsize first; /* first of its bytes, counted from the end of the header */
  gsize n_bytes;
} PsTensorEntry;

typedef struct {
  GPtrArray *entries;   /* of PsTensorEntry, as the header has them */
  GHashTable *by_name;  /* name -> entry */
  GHashTable *metadata; /* key -> text; empty: the file has none */
  gsize header_bytes;   /* before the arrays */
} PsSafetensors;

/* Reads the header in the bytes of a file, which must have the arrays that it names one after the other and nothing
 * else. Errors: PS_ERROR_INPUT "where: ...". Free with ps_safetensors_free. */
PsSafetensors *ps_safetensors_parse (const char *where, const void *bytes, gsize n_bytes,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_safetensors_free (PsSafetensors *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSafetensors, ps_safetensors_free)

/* NULL: there is none of that name. */
const PsTensorEntry *ps_safetensors_find (const PsSafetensors *file, const char *name);

/* The header of a file with arrays of floats under these names, which follow each other in this order: "F32", rows x
 * columns each; rows 0: a vector. metadata: pairs of key and text, NULL at the end. Free with g_free. */
typedef struct {
  char *name;
  gsize rows, columns;
} PsTensorShape;
char *ps_safetensors_header (const PsTensorShape *tensors, guint n, const char *const *metadata, gsize *n_bytes);

G_END_DECLS

#endif
