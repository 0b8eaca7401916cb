/* test-cuda-parts.c - that the parts of a GPU are what they are said to be, which only a GPU can show: work stays on
 * the multiprocessors of its part, parts have none in common, and work in one reads what another has written. */
#include "train/cuda/cuda-graph.h"
#include "error-rig.h"

#include "parts/where.h"

#define MAX_PARTS 16
#define MAX_SMS 1024
#define BLOCKS_PER_SM 64
#define MEETING_NS 200000000ull

typedef struct {
  PsCudaContext contexts[MAX_PARTS];
  guint seen[MAX_PARTS][MAX_SMS]; /* blocks that ran on each multiprocessor */
  guint n;
  gboolean graphs; /* kernels are captured and launched as graphs */
  guint *flags;    /* [n] in device memory, for parts that meet */
} Parts;

static void must (const char *what, cudaError_t status)
{
  fine (ps_cuda_ok (what, status, &error));
}

static void open_parts (Parts *parts, guint n, const guint *shares, gboolean graphs)
{
  *parts = (Parts){ .n = n, .graphs = graphs };
  for (guint i = 0; i < n; i++) {
    const PsDeviceSetting setting = { .index = i, .n_local = n, .shares = shares };

    fine (ps_cuda_context_open (&parts->contexts[i], &setting, &error));
  }
}

static void close_parts (Parts *parts)
{
  for (guint i = 0; i < parts->n; i++)
    ps_cuda_context_close (&parts->contexts[i]);
}

static void enter (Parts *parts, guint i)
{
  fine (ps_cuda_context_enter (&parts->contexts[i], &error));
}

/* What one device's thread does. */
typedef struct {
  Parts *parts;
  guint index;
} Visit;

typedef struct {
  PsCudaContext *context;
  guint *seen; /* in device memory */
} Look;

static void launch_look (gpointer data)
{
  const Look *look = data;

  ps_cuda_note (look->context, "kernel",
                where_launch (look->context->n_sms * BLOCKS_PER_SM, look->seen, MAX_SMS, look->context->stream));
}

static void look (Parts *parts, PsCudaContext *context, guint *seen)
{
  Look work = { context, seen };
  PsCudaGraphs *graphs = ps_cuda_graphs_new (1);

  ps_queue_begin (&context->base);
  if (parts->graphs)
    ps_cuda_graphs_run (graphs, context, &work, sizeof work, launch_look, &work);
  else
    launch_look (&work);
  fine (ps_queue_finish (&context->base, &error));
  fine (ps_cuda_await (context, &error));
  ps_cuda_graphs_free (graphs);
}

static gpointer look_around (gpointer data)
{
  const Visit *visit = data;
  Parts *parts = visit->parts;
  PsCudaContext *context = &parts->contexts[visit->index];
  guint *seen = NULL;

  enter (parts, visit->index);
  must ("memory", cudaMalloc ((void **)&seen, MAX_SMS * sizeof *seen));
  must ("memory", cudaMemsetAsync (seen, 0, MAX_SMS * sizeof *seen, context->stream));
  look (parts, context, seen);
  fine (ps_cuda_copy (context, parts->seen[visit->index], seen, MAX_SMS * sizeof *seen, &error));
  must ("memory", cudaFree (seen));
  return NULL;
}

/* All at the same time, each in a thread of its own, as in a run. */
static void visit_all (Parts *parts, GThreadFunc visit)
{
  GThread *threads[MAX_PARTS];
  Visit visits[MAX_PARTS];

  for (guint i = 0; i < parts->n; i++) {
    visits[i] = (Visit){ parts, i };
    threads[i] = g_thread_new ("part", visit, &visits[i]);
  }
  for (guint i = 0; i < parts->n; i++)
    g_thread_join (threads[i]);
}

static guint count_seen (const guint *seen)
{
  guint n = 0;

  for (guint i = 0; i < MAX_SMS; i++)
    n += seen[i] > 0;
  return n;
}

static void check_parts (guint n, const guint *shares, gboolean graphs)
{
  g_autofree Parts *parts = g_new (Parts, 1);

  open_parts (parts, n, shares, graphs);
  g_autofree char *sharing = ps_cuda_sharing ();
  g_test_message ("%u parts: %s", n, sharing);
  g_assert_true (g_str_has_prefix (sharing, "green contexts of "));
  visit_all (parts, look_around);
  for (guint i = 0; i < n; i++) {
    g_test_message ("part %u: %u multiprocessors, its blocks ran on %u", i, parts->contexts[i].n_sms,
                    count_seen (parts->seen[i]));
    g_assert_cmpuint (count_seen (parts->seen[i]), ==, parts->contexts[i].n_sms);
    for (guint k = 0; k < i; k++)
      for (guint sm = 0; sm < MAX_SMS; sm++)
        g_assert_true (parts->seen[i][sm] == 0 || parts->seen[k][sm] == 0);
  }
  close_parts (parts);
}

static gpointer meet_others (gpointer data)
{
  const Visit *visit = data;
  PsCudaContext *context = &visit->parts->contexts[visit->index];

  enter (visit->parts, visit->index);
  must ("kernel",
        where_launch_meeting (visit->parts->flags, visit->parts->n, visit->index, MEETING_NS, context->stream));
  must ("waiting", cudaStreamSynchronize (context->stream));
  return NULL;
}

/* Kernels of different parts run at the same time: each sees the flags of all others go up while it runs. CUDA does not
 * promise this of green contexts; streams in one hardware queue would take turns. */
static void test_together (void)
{
  const char *queues = g_getenv ("CUDA_DEVICE_MAX_CONNECTIONS");

  for (guint n = 2; n <= 8; n *= 2) {
    g_autofree Parts *parts = g_new (Parts, 1);
    guint flags[MAX_PARTS], n_met = 0;

    open_parts (parts, n, NULL, FALSE);
    enter (parts, 0);
    must ("memory", cudaMalloc ((void **)&parts->flags, sizeof flags));
    must ("memory", cudaMemset (parts->flags, 0, sizeof flags));
    visit_all (parts, meet_others);
    enter (parts, 0);
    must ("memory", cudaMemcpy (flags, parts->flags, n * sizeof *flags, cudaMemcpyDeviceToHost));
    must ("memory", cudaFree (parts->flags));
    for (guint i = 0; i < n; i++)
      n_met += flags[i] == 2;
    g_test_message ("%u of %u parts saw all others run (CUDA_DEVICE_MAX_CONNECTIONS=%s)", n_met, n, queues);
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

static void test_even (void)
{
  tell_granularity ();
  for (guint n = 2; n <= 8; n *= 2)
    check_parts (n, NULL, FALSE);
}

static void test_uneven (void)
{
  static const guint shares[] = { 40, 30, 20, 10 };

  check_parts (G_N_ELEMENTS (shares), shares, FALSE);
}

/* What was captured in a part's stream stays in that part when it is launched as a graph. */
static void test_graphs (void)
{
  for (guint n = 2; n <= 8; n *= 2)
    check_parts (n, NULL, TRUE);
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
  g_autofree Parts *parts = g_new (Parts, 1);
  g_autoptr (GError) error = NULL;
  guint8 *from = NULL, *to = NULL, got[4096];

  open_parts (parts, 2, NULL, FALSE);
  enter (parts, 0);
  must ("memory", cudaMalloc ((void **)&from, sizeof got));
  must ("memory", cudaMemsetAsync (from, 0x5a, sizeof got, parts->contexts[0].stream));
  must ("waiting", cudaStreamSynchronize (parts->contexts[0].stream));
  enter (parts, 1);
  must ("memory", cudaMalloc ((void **)&to, sizeof got));
  g_assert_true (ps_cuda_copy (&parts->contexts[1], to, from, sizeof got, &error));
  g_assert_true (ps_cuda_copy (&parts->contexts[1], got, to, sizeof got, &error));
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
  g_autoptr (GError) error = NULL;

  g_test_init (&argc, &argv, NULL);
  gboolean available = ps_cuda_available (&error);
  problem = available ? NULL : error->message;
  g_test_add_func ("/cuda-parts/even", available ? test_even : skip);
  g_test_add_func ("/cuda-parts/together", available ? test_together : skip);
  g_test_add_func ("/cuda-parts/uneven", available ? test_uneven : skip);
  g_test_add_func ("/cuda-parts/graphs", available ? test_graphs : skip);
  g_test_add_func ("/cuda-parts/again", available ? test_again : skip);
  g_test_add_func ("/cuda-parts/memory", available ? test_memory : skip);
  return g_test_run ();
}
