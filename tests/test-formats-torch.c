/* Tests of PyTorch's two schedule formats (formats.h): PyTorch's own files byte for byte, worked examples. */
#include "format-io.h"
#include <pipesim/families.h>

#include <stdlib.h>

/* PyTorch's files: the fixtures are a choice of those in the reference folder, which a checkout of its own lacks. */

static const char *const sample_folders[] = { "fixtures/torch", "../../shared/reference/pytorch" };

typedef struct
{
  char *compute;
  char *comms;
} Sample;

static void
sample_clear (Sample *sample)
{
  g_free (sample->compute);
  g_free (sample->comms);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sample, sample_clear)

/* name: "1F1B_p4_v1_m8_compute.csv" */
static Sample
load_sample (const char *folder, const char *name)
{
  g_autofree char *compute = g_build_filename (folder, name, NULL);
  g_autoptr (GString) comms = g_string_new (compute);
  Sample sample = { 0 };

  g_string_replace (comms, "_compute.csv", "_comms.csv", 0);
  g_assert_true (g_file_get_contents (compute, &sample.compute, NULL, NULL));
  g_assert_true (g_file_get_contents (comms->str, &sample.comms, NULL, NULL));
  return sample;
}

static void
check_sample (const char *folder, const char *name)
{
  g_auto (Sample) sample = load_sample (folder, name);
  g_autoptr (PsSchedule) compute = read_as ("torch-compute", sample.compute);
  g_autoptr (PsSchedule) comms = read_as ("torch-comms", sample.comms);
  g_autofree char *compute_again = write_as ("torch-compute", compute), *lowered = write_as ("torch-comms", compute);
  g_autofree char *comms_again = write_as ("torch-comms", comms), *raised = write_as ("torch-compute", comms);

  g_assert_cmpstr (compute_again, ==, sample.compute);
  g_assert_cmpstr (lowered, ==, sample.comms);
  g_assert_cmpstr (comms_again, ==, sample.comms);
  g_assert_cmpstr (raised, ==, sample.compute);
}

/* Which of our families PyTorch's classes are. */
static const struct
{
  const char *class;
  const char *family;
} classes[] = {
  { "GPipe", "gpipe" },
  { "1F1B", "1f1b" },
  { "Interleaved1F1B", "interleaved" },
  { "LoopedBFS", "looped-bfs" },
  { "InterleavedZeroBubble", "interleaved-zb" },
  { "ZBVZeroBubble", "zb-v" },
  { "DualPipeV", "dualpipe-v" },
};

static const PsFamily *
family_of (const char *class)
{
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (g_str_equal (classes[i].class, class))
      return ps_family_find (classes[i].family);
  g_assert_not_reached ();
}

/* TRUE when the family is in the table; then its order is PyTorch's. */
static gboolean
check_family (const char *folder, const char *name)
{
  g_auto (Sample) sample = load_sample (folder, name);
  g_auto (GStrv) parts = g_strsplit (name, "_", -1);
  const PsFamily *family = family_of (parts[0]);
  PsFamilySetting setting = { .n_devices = (guint)atoi (parts[1] + 1), .n_chunks = (guint)atoi (parts[2] + 1) };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *compute = NULL, *comms = NULL;

  if (family == NULL)
    return FALSE;
  setting.n_microbatches = (guint)atoi (parts[3] + 1);
  schedule = ps_family_generate (family, &setting, &error);
  g_assert_no_error (error);
  compute = write_as ("torch-compute", schedule);
  comms = write_as ("torch-comms", schedule);
  g_assert_cmpstr (compute, ==, sample.compute);
  g_assert_cmpstr (comms, ==, sample.comms);
  return TRUE;
}

static void
test_samples (gconstpointer data)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, (const char *)data, NULL);
  g_autoptr (GDir) directory = g_dir_open (folder, 0, NULL);
  guint n = 0, of_families = 0;
  const char *name;

  if (directory == NULL)
    {
      g_test_skip ("no reference files beside this checkout");
      return;
    }
  while ((name = g_dir_read_name (directory)) != NULL)
    if (g_str_has_suffix (name, "_compute.csv"))
      {
        g_test_message ("%s", name);
        check_sample (folder, name);
        of_families += check_family (folder, name);
        n++;
      }
  g_assert_cmpuint (n, >=, 5);
  g_assert_cmpuint (of_families, >=, 2);
  g_test_message ("%u samples, %u of our families", n, of_families);
}

/* A worked example: two ranks, two microbatches. Rank 0 takes the first turn of each round; a receive is noted the
 * moment its send is. */
static void
test_worked (void)
{
  static const char compute[] = "0F0,0F1,0I0,0W0,0B1\r\n"
                                "1F0,1I0,1F1,1W0,1B1\r\n";
  /* round: 0UNSHARD 1UNSHARD | 0F0 -> 1RECV_F0, then rank 1 takes its turn: 1F0 | 0F1 -> 1RECV_F1; 1I0 -> 0RECV_B0 |
   * 0I0; 1F1 | 0W0; 1W0 | rank 0 waits; 1B1 -> 0RECV_B1; | 0B1; 1REDUCE_GRAD | ... */
  static const char comms[]
      = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\r\n"
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1W0,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms", schedule);

  g_assert_cmpstr (lowered, ==, comms);
  g_assert_cmpuint (schedule->placement->n_devices, ==, 2);
  g_assert_cmpuint (schedule->n_microbatches, ==, 2);
  g_assert_cmpint (schedule->ops[2].kind, ==, PS_OP_B);
  g_assert_cmpint (schedule->ops[4].kind, ==, PS_OP_BW);
  g_assert_cmpstr (schedule->name, ==, "test");
}

/* Four stages on one rank: three have their weights gathered at a time. In front of 0F1 the pair fills the window with
 * both its stages, so that all four are. */
static void
test_worked_weights (void)
{
  static const char compute[] = "0F0,1F0,2F0,3F0,0F1,1F1,(2F1;3B0)OVERLAP_F_B,3F1,2B0,1B0,0B0,3B1,2B1,1B1,0B1\r\n";
  static const char comms[]
      = "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,1RESHARD,0UNSHARD,2F0,2RESHARD,1UNSHARD,3F0,"
        "2UNSHARD,0F1,0RESHARD,1F1,(2F1;3B0)OVERLAP_F_B,3F1,3RESHARD,0UNSHARD,2B0,2RESHARD,3UNSHARD,1B0,"
        "1RESHARD,2UNSHARD,0B0,0RESHARD,1UNSHARD,3B1,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B1,2REDUCE_GRAD,"
        "2RESHARD,1B1,1REDUCE_GRAD,1RESHARD,0B1,0REDUCE_GRAD,0RESHARD\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms", schedule);

  g_assert_cmpstr (lowered, ==, comms);
}

/* Pairs, a V, blanks, spaces, quotes, bare newlines and a missing one at the end. */
static void
test_lenient (void)
{
  static const char text[] = "0F0, 0F1,,\"3F0\",( 3F1 ; 3B0 )OVERLAP_F_B,0B0,3B1,0B1\n"
                             "1F0,2F0,1F1,2F1,,2B0,1B0,2B1,1B1,";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", text);
  g_autofree char *again = write_as ("torch-compute", schedule);

  g_assert_cmpint (schedule->placement->kind, ==, PS_PLACEMENT_V);
  g_assert_true (schedule->ops[3].paired && !schedule->ops[4].paired);
  g_assert_cmpstr (again, ==,
                   "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,0B0,3B1,0B1\r\n"
                   "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\r\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/formats-torch/fixtures", sample_folders[0], test_samples);
  g_test_add_data_func ("/formats-torch/reference", sample_folders[1], test_samples);
  g_test_add_func ("/formats-torch/worked", test_worked);
  g_test_add_func ("/formats-torch/worked-weights", test_worked_weights);
  g_test_add_func ("/formats-torch/lenient", test_lenient);
  return g_test_run ();
}
