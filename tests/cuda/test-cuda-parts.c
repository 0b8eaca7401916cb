/* test-cuda-parts.c - that the parts of a GPU are what they are said to be, which only a GPU can show: work stays on
 * the multiprocessors of its part, parts have none in common, and work in one reads what another has written. */
#include "train/cuda/cuda-context.h"
#include "error-rig.h"

#define MAX_PARTS 16
#define MAX_SMS 1024
#define BLOCKS_PER_SM 64
#define MEETING_NS 200000000ull

/* In where.cu. where_launch puts n_blocks blocks into the stream that keep their multiprocessor for some microseconds
 * each; seen[i] of n_seen numbers in device memory grows by the blocks that ran on multiprocessor i. */
cudaError_t where_launch (unsigned n_blocks, unsigned *seen, unsigned n_seen, cudaStream_t stream);

/* Puts one block into the stream that raises flags[own] and waits, wait_ns at most, until all n flags are up. flags[n]
 * in device memory are zero before; flags[own] becomes 2 if the block has seen them all, else 1. */
cudaError_t where_launch_meeting (unsigned *flags, unsigned n, unsigned own, unsigned long long wait_ns,
                                  cudaStream_t stream);

typedef struct Parts Parts;

/* A device's part, and what its thread does. */
typedef struct {
  Parts *parts;
  guint index;
  PsCudaContext context;
  guint seen[MAX_SMS]; /* blocks that ran on each multiprocessor */
} Part;

struct Parts {
  guint n;
  gboolean graphs; /* kernels are captured and launched as graphs */
  guint *flags;    /* [n] in device memory, for parts that meet */
  Part part[MAX_PARTS];
};

static void must (const char *what, cudaError_t status)
{
  fine (ps_cuda_ok (what, status, &error));
}

static void enter (Part *part)
{
  fine (ps_cuda_context_enter (&part->context, &error));
}

static Parts *open_parts (guint n, const guint *shares)
{
  Parts *parts = g_new0 (Parts, 1);

  parts->n = n;
  for (guint i = 0; i < n; i++) {
    const PsDeviceSetting setting = { .index = i, .n_local = n, .shares = shares };

    parts->part[i] = (Part){ .parts = parts, .index = i };
    fine (ps_cuda_context_open (&parts->part[i].context, &setting, &error));
  }
  return parts;
}

static void close_parts (Parts *parts)
{
  for (guint i = 0; i < parts->n; i++)
    ps_cuda_context_close (&parts->part[i].context);
  g_free (parts);
}

/* All at the same time, each in a thread of its own, as in a run. */
static void visit_all (Parts *parts, GThreadFunc visit)
{
  GThread *threads[MAX_PARTS];

  for (guint i = 0; i < parts->n; i++)
    threads[i] = g_thread_new ("part", visit, &parts->part[i]);
  for (guint i = 0; i < parts->n; i++)
    g_thread_join (threads[i]);
}

static gpointer look_around (gpointer data)
{
  Part *part = data;
  const cudaStream_t stream = part->context.stream;
  cudaGraphExec_t made = NULL;
  cudaGraph_t graph = NULL;
  guint *seen = NULL;

  enter (part);
  must ("memory", cudaMalloc ((void **)&seen, sizeof part->seen));
  must ("memory", cudaMemsetAsync (seen, 0, sizeof part->seen, stream));
  if (part->parts->graphs)
    must ("capture", cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal));
  must ("kernel", where_launch (part->context.n_sms * BLOCKS_PER_SM, seen, MAX_SMS, stream));
  if (part->parts->graphs) {
    must ("capture", cudaStreamEndCapture (stream, &graph));
    must ("graph", cudaGraphInstantiate (&made, graph, 0));
    must ("graph", cudaGraphLaunch (made, stream));
  }
  fine (ps_cuda_copy (&part->context, part->seen, seen, sizeof part->seen, &error));
  if (part->parts->graphs) {
    must ("graph", cudaGraphExecDestroy (made));
    must ("graph", cudaGraphDestroy (graph));
  }
  must ("memory", cudaFree (seen));
  return NULL;
}

static guint count_seen (const Part *part)
{
  guint n = 0;

  for (guint i = 0; i < MAX_SMS; i++)
    n += part->seen[i] > 0;
  return n;
}

static void check_parts (guint n, const guint *shares, gboolean graphs)
{
  Parts *parts = open_parts (n, shares);
  g_autofree char *sharing = ps_cuda_sharing ();

  parts->graphs = graphs;
  g_test_message ("%u parts: %s", n, sharing);
  g_assert_true (g_str_has_prefix (sharing, "green contexts of "));
  visit_all (parts, look_around);
  for (guint i = 0; i < n; i++) {
    const Part *part = &parts->part[i];

    g_test_message ("part %u: %u multiprocessors, its blocks ran on %u", i, part->context.n_sms, count_seen (part));
    g_assert_cmpuint (count_seen (part), ==, part->context.n_sms);
    for (guint k = 0; k < i; k++)
      for (guint sm = 0; sm < MAX_SMS; sm++)
        g_assert_true (part->seen[sm] == 0 || parts->part[k].seen[sm] == 0);
  }
  close_parts (parts);
}

static gpointer meet_others (gpointer data)
{
  Part *part = data;

  enter (part);
  must ("kernel",
        where_launch_meeting (part->parts->flags, part->parts->n, part->index, MEETING_NS, part->context.stream));
  must ("waiting", cudaStreamSynchronize (part->context.stream));
  return NULL;
}

/* Kernels of different parts run at the same time: each sees the flags of all others go up while it runs. CUDA does not
 * promise this of green contexts; streams in one hardware queue would take turns. */
static void test_together (void)
{
  for (guint n = 2; n <= 8; n *= 2) {
    Parts *parts = open_parts (n, NULL);
    guint flags[MAX_PARTS], n_met = 0;

    enter (&parts->part[0]);
    must ("memory", cudaMalloc ((void **)&parts->flags, sizeof flags));
    must ("memory", cudaMemset (parts->flags, 0, sizeof flags));
    visit_all (parts, meet_others);
    enter (&parts->part[0]);
    must ("memory", cudaMemcpy (flags, parts->flags, n * sizeof *flags, cudaMemcpyDeviceToHost));
    must ("memory", cudaFree (parts->flags));
    for (guint i = 0; i < n; i++)
      n_met += flags[i] == 2;
    g_test_message ("%u of %u parts saw all others run (CUDA_DEVICE_MAX_CONNECTIONS=%s)", n_met, n,
                    g_getenv ("CUDA_DEVICE_MAX_CONNECTIONS"));
    g_assert_cmpuint (n_met, ==, n);
    close_parts (parts);
  }
}

/* For whoever reads the log: what the driver says of the whole GPU. */
static void tell_granularity (void)
{
  enum cudaDriverEntryPointQueryResult found;
  __typeof__ (cuDeviceGetDevResource) *get = NULL;
  CUdevResource whole;

  must ("driver", cudaGetDriverEntryPointByVersion ("cuDeviceGetDevResource", (void **)&get, CUDA_VERSION,
                                                    cudaEnableDefault, &found));
  must ("driver", cudaSetDevice (0));
  g_assert_nonnull (get);
  g_assert_cmpint (get (0, &whole, CU_DEV_RESOURCE_TYPE_SM), ==, CUDA_SUCCESS);
  g_test_message ("%u multiprocessors, parts of at least %u, scheduled together by %u", whole.sm.smCount,
                  whole.sm.minSmPartitionSize, whole.sm.smCoscheduledAlignment);
}

/* What was captured in a part's stream stays in that part when it is launched as a graph. */
static void test_even (void)
{
  tell_granularity ();
  for (guint n = 2; n <= 8; n *= 2)
    for (guint graphs = 0; graphs < 2; graphs++)
      check_parts (n, NULL, graphs);
}

static void test_uneven (void)
{
  check_parts (4, (const guint[]){ 40, 30, 20, 10 }, FALSE);
}

/* Opened, closed and opened again: what a run and its reference, and every rotation of a calibration, do. */
static void test_again (void)
{
  for (guint i = 0; i < 20; i++)
    check_parts (4, NULL, FALSE);
}

/* What part 0 has written part 1 copies in its own stream, from memory that part 0 took. */
static void test_memory (void)
{
  Parts *parts = open_parts (2, NULL);
  PsCudaContext *writer = &parts->part[0].context, *reader = &parts->part[1].context;
  guint8 *from = NULL, *to = NULL, got[4096];

  enter (&parts->part[0]);
  must ("memory", cudaMalloc ((void **)&from, sizeof got));
  must ("memory", cudaMemsetAsync (from, 0x5a, sizeof got, writer->stream));
  must ("waiting", cudaStreamSynchronize (writer->stream));
  enter (&parts->part[1]);
  must ("memory", cudaMalloc ((void **)&to, sizeof got));
  fine (ps_cuda_copy (reader, to, from, sizeof got, &error));
  fine (ps_cuda_copy (reader, got, to, sizeof got, &error));
  for (guint i = 0; i < sizeof got; i++)
    g_assert_cmpuint (got[i], ==, 0x5a);
  must ("memory", cudaFree (from));
  must ("memory", cudaFree (to));
  close_parts (parts);
}

static char *problem;

static void skip (void)
{
  g_test_skip (problem);
}

int main (int argc, char **argv)
{
  static const struct {
    const char *path;
    GTestFunc test;
  } tests[] = { { "/cuda-parts/even", test_even },
                { "/cuda-parts/together", test_together },
                { "/cuda-parts/uneven", test_uneven },
                { "/cuda-parts/again", test_again },
                { "/cuda-parts/memory", test_memory } };
  g_autoptr (GError) error = NULL;

  g_test_init (&argc, &argv, NULL);
  gboolean available = ps_cuda_available (&error);
  problem = available ? NULL : error->message;
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add_func (tests[i].path, available ? tests[i].test : skip);
  return g_test_run ();
}
