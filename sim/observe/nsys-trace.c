/* nsys-trace.c - measured timelines from Nsight Systems exports: NVTX ranges and the kernels that they launched. */
#include "store/database.h"
#include "base/text.h"
#include "trace-private.h"

#include <stdio.h>
#include <string.h>

/* A kernel that sends or receives. */
typedef struct {
  gint64 launched_ns; /* when the host asked for it */
  gint64 start_ns;
  gint64 end_ns;
} Kernel;

/* The messages of a rank that Nsight Systems recorded, and its times on the device. */

PS_DEFINE_ORDER (compare_kernels, Kernel, launched_ns)

static void add_link (PsRank *rank, guint8 post, PsOp op, const Kernel *kernel)
{
  PsSpan span = { .start_ns = kernel->start_ns, .end_ns = kernel->end_ns, .post = post };

  span.op = op;
  span.op.kind = ps_op_is_backward (op) ? PS_OP_B : op.kind;
  span.op.paired = 0;
  g_array_append_val (rank->links, span);
}

/* Kernels that were launched by a SEND or RECV action. */
static void link_posts (PsRank *rank, const GArray *kernels)
{
  for (guint i = 0; i < rank->posts->len; i++) {
    const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);

    for (guint k = ps_first_after (kernels, offsetof (Kernel, launched_ns), post->start_ns - 1); k < kernels->len;
         k++) {
      const Kernel *kernel = &g_array_index (kernels, Kernel, k);

      if (kernel->launched_ns >= post->end_ns)
        break;
      add_link (rank, post->post, post->op, kernel);
    }
  }
}

/* Kernels between two ranges send the result of the first and receive the input of the second: one kernel may do both,
 * of several the first sends and the last receives. */
static void link_neighbours (PsRank *rank, const GArray *kernels, guint n_stages)
{
  for (guint i = 0, k = 0; i <= rank->ranges->len; i++) {
    const PsRankRange *before = i > 0 ? &g_array_index (rank->ranges, PsRankRange, i - 1) : NULL;
    const PsRankRange *after = i < rank->ranges->len ? &g_array_index (rank->ranges, PsRankRange, i) : NULL;
    guint first = k;
    PsOp op;

    while (k < kernels->len && (after == NULL || g_array_index (kernels, Kernel, k).launched_ns < after->start_ns))
      k++;
    if (k == first)
      continue;
    if (before != NULL
        && (before->ops[0].kind == PS_OP_F ? before->ops[0].stage + 1U < n_stages : before->ops[0].stage > 0))
      add_link (rank, PS_INSTRUCTION_SEND, before->ops[0], &g_array_index (kernels, Kernel, first));
    if (after != NULL && ps_op_input (after->ops[0], n_stages, &op))
      add_link (rank, PS_INSTRUCTION_RECEIVE, op, &g_array_index (kernels, Kernel, k - 1));
  }
}

/* Puts the times of the GPU in place of those of the host. Kernels of an op that outlast the start of the next one do
 * not count longer. */
static void take_device_times (PsRank *rank)
{
  gint64 last_ns = 0;

  for (guint i = 0; i < rank->ranges->len; i++) {
    PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

    if (range->compute_end_ns < range->compute_start_ns)
      range->compute_start_ns = range->compute_end_ns = MAX (last_ns, range->start_ns);
    if (i > 0) {
      range[-1].compute_end_ns
          = MIN (range[-1].compute_end_ns, MAX (range->compute_start_ns, range[-1].compute_start_ns));
      range[-1].end_ns = range[-1].compute_end_ns;
      range->compute_start_ns = MAX (range->compute_start_ns, range[-1].compute_end_ns);
      range->compute_end_ns = MAX (range->compute_end_ns, range->compute_start_ns);
    }
    last_ns = range->compute_end_ns;
    range->start_ns = range->wait_start_ns = range->wait_end_ns = range->compute_start_ns;
    range->end_ns = range->compute_end_ns;
  }
}

/* A range waits while the kernel that receives its message runs and nothing else does. */
static void find_waits (PsRank *rank, guint n_stages)
{
  for (guint i = 0; i < rank->links->len; i++) {
    const PsSpan *link = &g_array_index (rank->links, PsSpan, i);
    guint at = ps_rank_first_after (rank, link->end_ns - 1);
    PsOp op;

    if (link->post != PS_INSTRUCTION_RECEIVE || at >= rank->ranges->len)
      continue;
    PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, at);
    if (!ps_op_input (range->ops[0], n_stages, &op) || op.stage != link->op.stage || op.kind != link->op.kind
        || op.microbatch != link->op.microbatch)
      continue;
    range->wait_start_ns = MAX (link->start_ns, at > 0 ? range[-1].compute_end_ns : link->start_ns);
    range->wait_end_ns = MAX (link->end_ns, range->wait_start_ns);
    if (range->wait_end_ns > range->compute_start_ns)
      range->wait_end_ns = range->wait_start_ns = range->compute_start_ns;
  }
}

/* Gives a rank's numbered ranges the times of the device in place of the host's, whose posts and waits go; finds the
 * ends of messages among the kernels, and waits. named: names tell the ops of messages. Interleaved 1F1B may receive
 * ahead: whose messages kernels without a name carry is then unknown. */
static void take_device (PsRank *rank, GArray *kernels, gboolean named, guint n_stages, guint n_ranks)
{
  g_array_sort (kernels, compare_kernels);
  if (named)
    link_posts (rank, kernels);
  else if (n_stages <= n_ranks)
    link_neighbours (rank, kernels, n_stages);
  g_array_set_size (rank->posts, 0);
  g_array_set_size (rank->waits, 0);
  take_device_times (rank);
  find_waits (rank, n_stages);
}

#define MAX_NS G_GINT64_CONSTANT (4000000000000000000)
#define PROCESS_OF(tid) ((tid) & ~G_GINT64_CONSTANT (0xffffff)) /* of a serialised thread */

/* A process whose ranges are those of a pipeline: a rank. */
typedef struct {
  guint file;
  gint64 id;
  gint64 device; /* the first that ran its kernels */
  gint64 number; /* stated by its file's name; -1: none */
  PsRank *rank;
  GArray *kernels; /* of Kernel: those of messages */
} Process;

typedef struct {
  const char *where;
  guint file;
  const char *path;
  gint64 base_ns; /* added to all times of the file */
  gboolean gpu;   /* any file has kernels */
  PsRangeNaming naming;
  GPtrArray *processes;
} Reader;

static void process_free (gpointer data)
{
  Process *process = data;

  ps_rank_free (process->rank);
  g_array_unref (process->kernels);
  g_free (process);
}

static Process *find_process (const Reader *reader, gint64 id)
{
  for (guint i = 0; i < reader->processes->len; i++) {
    Process *process = g_ptr_array_index (reader->processes, i);

    if (process->file == reader->file && process->id == id)
      return process;
  }
  return NULL;
}

static Process *add_process (Reader *reader, gint64 id)
{
  Process *process = find_process (reader, id);

  if (process != NULL || reader->processes->len >= 2 * PS_MAX_DEVICES)
    return process;
  process = g_new0 (Process, 1);
  process->file = reader->file;
  process->id = id;
  process->number = ps_rank_of_path (reader->path);
  process->rank = ps_rank_new (reader->path);
  process->kernels = g_array_new (FALSE, FALSE, sizeof (Kernel));
  g_ptr_array_add (reader->processes, process);
  return process;
}

/* Reads two columns as times; FALSE: absurd ones. */
static gboolean read_times (const Reader *reader, PsRows *rows, int column, gint64 *start_ns, gint64 *end_ns)
{
  *start_ns = ps_rows_integer (rows, column);
  *end_ns = ps_rows_integer (rows, column + 1);
  if (*start_ns < 0 || *end_ns < *start_ns || *end_ns > PS_MAX_TIME_NS)
    return FALSE;
  *start_ns += reader->base_ns;
  *end_ns += reader->base_ns;
  return TRUE;
}

/* Calls use for every row of a query. */
static gboolean each_row (Reader *reader, PsDatabase *db, const char *sql, void (*use) (Reader *reader, PsRows *rows),
                          GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error, sql, "");
  gboolean found = TRUE;

  if (rows == NULL)
    return FALSE;
  while (found) {
    if (!ps_rows_next (rows, &found, error))
      return FALSE;
    if (found)
      use (reader, rows);
  }
  return TRUE;
}

/* Ranges */

static void add_range (Reader *reader, gint64 thread, const char *text, gint64 start_ns, gint64 end_ns)
{
  gboolean mark = ps_range_name_is_mark (text);
  PsRangeName name;

  if (!mark && !ps_range_name_parse (text, &name))
    return;
  Process *process = add_process (reader, PROCESS_OF (thread));
  if (process == NULL)
    return;
  if (mark) {
    ps_rank_add_mark (process->rank, ps_range_name_is_update (text) && !reader->gpu, start_ns, end_ns);
    return;
  }
  reader->naming = MAX (reader->naming, name.naming);
  ps_rank_add (process->rank, &name, start_ns, end_ns);
}

static void use_range (Reader *reader, PsRows *rows)
{
  g_autofree char *text = ps_rows_text (rows, 3);
  gint64 start_ns, end_ns;

  if (text != NULL && read_times (reader, rows, 0, &start_ns, &end_ns))
    add_range (reader, ps_rows_integer (rows, 2), text, start_ns, end_ns);
}

/* Kernels */

/* A range computes from the start of its first kernel to the end of its last one. Any thread of the process may launch
 * them: autograd has its own. */
static void use_kernel (Reader *reader, PsRows *rows)
{
  Process *process = find_process (reader, PROCESS_OF (ps_rows_integer (rows, 3)));
  Kernel kernel;

  if (process == NULL || !read_times (reader, rows, 0, &kernel.start_ns, &kernel.end_ns))
    return;
  kernel.launched_ns = ps_rows_integer (rows, 2) + reader->base_ns;
  PsRankRange *range = ps_rank_range_at (process->rank, kernel.launched_ns);
  if (ps_rows_integer (rows, 4))
    g_array_append_val (process->kernels, kernel);
  else if (range != NULL) {
    range->compute_start_ns = MIN (range->compute_start_ns, kernel.start_ns);
    range->compute_end_ns = MAX (range->compute_end_ns, kernel.end_ns);
  }
}

/* Files */

static gboolean has_table (PsDatabase *db, const char *name, gboolean *has, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (db, error, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?", "s", name);

  return rows != NULL && ps_rows_next (rows, has, error);
}

static void use_base (Reader *reader, PsRows *rows)
{
  reader->base_ns = CLAMP (ps_rows_integer (rows, 0), 0, MAX_NS);
}

/* Times count from the start of the session. */
static gboolean read_base (Reader *reader, PsDatabase *db, GError **error)
{
  gboolean has;

  reader->base_ns = 0;
  if (!has_table (db, "TARGET_INFO_SESSION_START_TIME", &has, error))
    return FALSE;
  return !has || each_row (reader, db, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", use_base, error);
}

/* Also refuses a database without ranges. */
static gboolean has_kernels (const Reader *reader, PsDatabase *db, gboolean *kernels, GError **error)
{
  gboolean ranges, calls;

  if (!has_table (db, "NVTX_EVENTS", &ranges, error) || !has_table (db, "CUPTI_ACTIVITY_KIND_KERNEL", kernels, error)
      || !has_table (db, "CUPTI_ACTIVITY_KIND_RUNTIME", &calls, error))
    return FALSE;
  *kernels &= calls;
  return ranges
         || ps_refuse (error, PS_ERROR_INPUT,
                       "%s: has no table NVTX_EVENTS; an export of Nsight Systems that traced nvtx would be right",
                       reader->path);
}

static void use_device (Reader *reader, PsRows *rows)
{
  Process *process = find_process (reader, PROCESS_OF (ps_rows_integer (rows, 0)));

  if (process != NULL)
    process->device = ps_rows_integer (rows, 1);
}

/* Event types 59 and 60 are push-pop and start-end ranges. A text is registered (textId) or stands in the event. */
#define RANGES                                                                                                         \
  "SELECT e.start, e.end, e.globalTid, coalesce (e.text, s.value) FROM NVTX_EVENTS AS e "                              \
  "LEFT JOIN StringIds AS s ON s.id = e.textId WHERE e.eventType IN (59, 60) AND e.end IS NOT NULL"

/* A kernel's correlation id is that of the call that launched it, within one process. */
#define KERNELS                                                                                                        \
  "SELECT k.start, k.end, r.start, r.globalTid, s.value LIKE '%nccl%SendRecv%' "                                       \
  "FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r "                                        \
  "ON r.correlationId = k.correlationId AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000 "                        \
  "LEFT JOIN StringIds AS s ON s.id = k.shortName"

/* The device of each process, by which processes of one file are ordered. */
#define DEVICES "SELECT globalPid, min (deviceId) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY globalPid"

/* pass 0 reads the ranges of a file, pass 1 their kernels. */
static gboolean read_file (Reader *reader, guint file, const char *path, guint pass, GError **error)
{
  g_autoptr (PsDatabase) db = ps_database_open_foreign (path, error);
  gboolean kernels;

  reader->file = file;
  reader->path = path;
  if (db == NULL || !has_kernels (reader, db, &kernels, error) || !read_base (reader, db, error))
    return FALSE;
  reader->gpu |= kernels;
  if (pass == 1)
    return !kernels || each_row (reader, db, KERNELS, use_kernel, error);
  return each_row (reader, db, RANGES, use_range, error)
         && (!kernels || each_row (reader, db, DEVICES, use_device, error));
}

static int compare_processes (gconstpointer a, gconstpointer b)
{
  const Process *x = *(Process *const *)a, *y = *(Process *const *)b;

  return x->number != y->number   ? PS_COMPARE (x->number, y->number)
         : x->file != y->file     ? PS_COMPARE (x->file, y->file)
         : x->device != y->device ? PS_COMPARE (x->device, y->device)
                                  : PS_COMPARE (x->id, y->id);
}

/* The processes with ranges, in order, as ranks. */
static GPtrArray *list_ranks (Reader *reader, GError **error)
{
  g_autoptr (GPtrArray) ranks = g_ptr_array_new ();

  g_ptr_array_sort (reader->processes, compare_processes);
  for (guint i = reader->processes->len; i-- > 0;)
    if (((const Process *)g_ptr_array_index (reader->processes, i))->rank->ranges->len == 0)
      g_ptr_array_remove_index (reader->processes, i);
  for (guint i = 0; i < reader->processes->len; i++) {
    PsRank *rank = ((const Process *)g_ptr_array_index (reader->processes, i))->rank;

    rank->number = i;
    g_ptr_array_add (ranks, rank);
  }
  if (ranks->len > 0 && ranks->len <= PS_MAX_DEVICES)
    return g_steal_pointer (&ranks);
  return ps_refuse_null (
      error, PS_ERROR_INPUT,
      "%s: %u processes have NVTX ranges of a pipeline, such as PP:0F0 or forward_step; between 1 and %d would be "
      "right",
      reader->where, ranks->len, PS_MAX_DEVICES);
}

/* A database of pipesim itself is no export: its application_id, at byte 68 of the file, begins with "PS". */
gboolean ps_nsys_recognise (const char *path)
{
  char head[70] = "";
  FILE *file = g_file_test (path, G_FILE_TEST_IS_REGULAR) ? fopen (path, "rb") : NULL;
  gboolean is = file != NULL && fread (head, 1, sizeof head, file) == sizeof head
                && memcmp (head, "SQLite format 3", 16) == 0 && memcmp (head + 68, "PS", 2) != 0;

  if (file != NULL)
    fclose (file);
  return is;
}

GPtrArray *ps_nsys_read (const char *where, const char *const *paths, guint n, GError **error)
{
  g_autoptr (GPtrArray) processes = g_ptr_array_new_with_free_func (process_free);
  Reader reader = { .where = where, .processes = processes };

  for (guint i = 0; i < n; i++)
    if (!read_file (&reader, i, paths[i], 0, error))
      return NULL;
  g_autoptr (GPtrArray) ranks = list_ranks (&reader, error);
  if (ranks == NULL || !ps_ranks_number (ranks, reader.naming, error))
    return NULL;
  guint n_stages = ps_ranks_count_stages (ranks);
  for (guint r = 0; reader.gpu && r < ranks->len; r++) {
    const GArray *ranges = ((const PsRank *)g_ptr_array_index (ranks, r))->ranges;

    for (guint i = 0; i < ranges->len; i++) /* before kernels are read none computes */
    {
      g_array_index (ranges, PsRankRange, i).compute_start_ns = G_MAXINT64;
      g_array_index (ranges, PsRankRange, i).compute_end_ns = G_MININT64;
    }
  }
  for (guint i = 0; i < n; i++)
    if (!read_file (&reader, i, paths[i], 1, error))
      return NULL;
  for (guint i = 0; reader.gpu && i < reader.processes->len; i++) {
    Process *process = g_ptr_array_index (reader.processes, i);

    take_device (process->rank, process->kernels, reader.naming == PS_RANGES_NAMED, n_stages, ranks->len);
  }
  return ps_ranks_to_timelines (reader.where, reader.gpu ? "Nsight Systems, GPU" : "Nsight Systems, processor", ranks,
                                error);
}
