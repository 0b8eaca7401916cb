/* Tests of shared links in simulate.h on schedules, costs and clusters drawn at random: every transfer against a fluid
 * model in which everything that moves gets a new rate whenever anything comes or goes. */
#include "lower.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <pipesim/simulate.h>
#include <pipesim/costs.h>

#include <math.h>

/* One transfer as bytes that move */
typedef struct {
  gint64 begin_ns; /* its latency is over */
  gint64 end_ns;   /* as the engine says */
  gint64 since_ns;
  gint64 due_ns; /* at its rate */
  guint64 alone, rate, next;
  double left; /* bytes * 10^9 as of since_ns; the test's numbers are exact in it */
  guint port[2];
  gboolean moves, fixed;
} Bytes;

static guint port_of (const PsCluster *cluster, guint device, gboolean network, gboolean in)
{
  gboolean shared = network ? cluster->network_shared : cluster->link_shared;

  if (shared)
    device -= device % cluster->devices_per_node;
  return 4 * device + 2 * (guint)network + (guint)(in && (network || !shared));
}

/* Rates by progressive filling over everything that moves. */
static void fill_ports (GArray *all, const PsCluster *cluster, guint n_ports)
{
  g_autofree guint64 *left = g_new (guint64, n_ports);
  g_autofree guint *n = g_new0 (guint, n_ports);
  gboolean more = TRUE;

  for (guint i = 0; i < n_ports; i++)
    left[i] = (guint64)(i % 4 < 2 ? cluster->link_bandwidth : cluster->network_bandwidth);
  for (guint i = 0; i < all->len; i++) {
    Bytes *bytes = &g_array_index (all, Bytes, i);

    bytes->fixed = !bytes->moves;
    n[bytes->port[0]] += bytes->moves;
    n[bytes->port[1]] += bytes->moves && bytes->port[0] != bytes->port[1];
  }
  while (more) {
    Bytes *least = NULL;
    guint64 level = G_MAXUINT64;

    for (guint i = 0; i < all->len; i++) {
      Bytes *bytes = &g_array_index (all, Bytes, i);
      const guint *port = bytes->port;

      if (bytes->fixed)
        continue;
      guint64 most = MIN (bytes->alone, MIN (left[port[0]] / n[port[0]], left[port[1]] / n[port[1]]));
      least = most < level ? bytes : least;
      level = MIN (level, most);
    }
    more = least != NULL;
    if (!more)
      break;
    least->fixed = TRUE;
    least->next = MAX (level, 1);
    for (guint k = 0; k < 1U + (least->port[0] != least->port[1]); k++) {
      left[least->port[k]] -= MIN (left[least->port[k]], least->next);
      n[least->port[k]]--;
    }
  }
}

static void list_bytes (const PsProgram *program, const PsCosts *costs, const PsCluster *cluster,
                        const PsSimulation *simulation, GArray *all)
{
  for (guint i = 0; i < program->n_messages; i++) {
    const PsMessage *message = &program->messages[i];
    guint transfer = program->steps[message->consumer].transfer;
    gboolean network = ps_cluster_is_remote (cluster, message->sender, message->receiver);
    gint64 latency_ns = ps_cluster_link (cluster, message->sender, message->receiver).latency_ns;
    gint64 body_ns = costs->transfer_ns[transfer] - latency_ns;
    Bytes bytes = { .begin_ns = simulation->transfer_start_ns[message->consumer] + latency_ns,
                    .end_ns = simulation->transfer_end_ns[message->consumer] };

    if (body_ns > 0)
      bytes.alone = (guint64)((double)costs->message_bytes[transfer] * 1e9 / (double)body_ns);
    if (bytes.alone == 0) {
      g_assert_cmpint (bytes.end_ns, ==, bytes.begin_ns + body_ns);
      continue;
    }
    bytes.left = (double)bytes.alone * (double)body_ns;
    bytes.port[0] = port_of (cluster, message->sender, network, FALSE);
    bytes.port[1] = port_of (cluster, message->receiver, network, TRUE);
    g_array_append_val (all, bytes);
  }
}

static void come_and_go (GArray *all, gint64 now_ns)
{
  for (guint i = 0; i < all->len; i++) {
    Bytes *bytes = &g_array_index (all, Bytes, i);

    if (bytes->moves && bytes->due_ns == now_ns) {
      g_assert_cmpint (bytes->end_ns, ==, now_ns);
      bytes->moves = FALSE;
    }
    if (bytes->begin_ns == now_ns && bytes->since_ns == 0) {
      bytes->moves = TRUE;
      bytes->since_ns = now_ns;
    }
  }
}

/* The nearest nanosecond to the end at its rate. Which flow of a port gets the last byte per second may decide a tie.
 */
static gint64 due (const Bytes *bytes, gint64 now_ns)
{
  double wait_ns = bytes->left / (double)bytes->rate, tie = fabs (wait_ns - floor (wait_ns) - 0.5);
  gint64 due_ns = now_ns + (gint64)floor (wait_ns + 0.5);

  return tie < 1e-6 && ABS (bytes->end_ns - due_ns) == 1 ? bytes->end_ns : due_ns;
}

/* All take their next rates. Returns when anything comes or goes next. */
static gint64 go_on (GArray *all, gint64 now_ns)
{
  gint64 next_ns = G_MAXINT64;

  for (guint i = 0; i < all->len; i++) {
    Bytes *bytes = &g_array_index (all, Bytes, i);

    if (!bytes->moves) {
      next_ns = bytes->since_ns == 0 ? MIN (next_ns, bytes->begin_ns) : next_ns;
      continue;
    }
    bytes->left = MAX (bytes->left - (double)bytes->rate * (double)(now_ns - bytes->since_ns), 0);
    bytes->since_ns = now_ns;
    bytes->rate = bytes->next;
    bytes->due_ns = due (bytes, now_ns);
    next_ns = MIN (next_ns, bytes->due_ns);
  }
  return next_ns;
}

/* Follows all transfers of a run from their starts, with rates found anew whenever anything comes or goes, and holds
 * their ends against the engine's. */
static void check_links (const PsProgram *program, const PsCosts *costs, const PsCluster *cluster,
                         const PsSimulation *simulation)
{
  g_autoptr (GArray) all = g_array_new (FALSE, TRUE, sizeof (Bytes));

  list_bytes (program, costs, cluster, simulation, all);
  for (gint64 now_ns = 0; now_ns < G_MAXINT64; now_ns = go_on (all, now_ns)) {
    come_and_go (all, now_ns);
    fill_ports (all, cluster, 4 * program->schedule->placement->n_devices);
  }
  for (guint i = 0; i < all->len; i++)
    g_assert_false (g_array_index (all, Bytes, i).moves);
}

/* Costs that each stage, microbatch and slice has one of two of. */
static PsCosts *draw_lengths (GRand *rand, PsProgram *program, const PsCosts *costs)
{
  g_autoptr (PsCosts) other = random_costs (rand, costs->n_stages, 3);
  gsize n = ps_schedule_n_cells (program->schedule);
  g_autofree guint16 *length = g_new (guint16, n);

  for (gsize cell = 0; cell < n; cell++)
    length[cell] = (guint16)random_below (rand, 2);
  ps_program_set_lengths (program, 2, length);
  return ps_costs_join ((PsCosts *const[]){ (PsCosts *)costs, other }, 2);
}

/* Links from empty to crowded, of devices and of nodes, with and without channels, and microbatches of two lengths. */
static void test_shares (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (97);

  for (guint i = 0; i < 1000; i++) {
    PsCluster cluster = { .devices_per_node = 1 + random_below (rand, 4),
                          .link_latency_ns = 1 + random_below (rand, 5),
                          .link_bandwidth = 1e9 * (1 + random_below (rand, 60)),
                          .network_latency_ns = 1 + random_below (rand, 9),
                          .network_bandwidth = 1e9 * (1 + random_below (rand, 30)),
                          .network_shared = i % 2,
                          .link_shared = i / 2 % 2 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4), .links = &cluster };

    PsSchedule *schedule = random_schedule (rand, g_rand_boolean (rand));
    g_autoptr (PsCosts) alike = random_costs (rand, schedule->placement->n_stages, 3);
    g_autoptr (PsProgram) program = ps_program_lower (schedule, PS_COMM_ASAP, NULL);
    g_autoptr (PsCosts) costs = i % 3 == 0 ? draw_lengths (rand, program, alike) : ps_costs_copy (alike);

    cluster.nodes = program->schedule->placement->n_devices;
    g_autoptr (PsSimulation) simulation = simulated_with (program, costs, &setting);
    check_links (program, costs, &cluster, simulation);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events-links/shares", test_shares);
  return g_test_run ();
}
