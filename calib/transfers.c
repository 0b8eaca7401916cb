/* transfers.c - times messages of many sizes between two devices by ping-pong. What counts is what the consumer
 * sees: from the sender's call until the receiver holds the data. */
#include "transfers.h"

#include "clock.h"
#include "processes/crew.h"
#include "provenance.h"
#include "watch.h"

#define SMALLEST_BYTES 8
#define CAPACITY 2
#define HEAD_SIZE 64
#define LONGEST_SEQUENCE 1024
#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* There are some twenty sizes: together they get about two rotations' time. */
#define TIME_SHARE 10

#define N_PLAYERS 2

/* Rounds between two looks at the samples: doubled each time up to this. */
#define MAX_ROUNDS 16U

static const PsOp messages[N_PLAYERS] = { { .kind = PS_OP_F, .stage = 0 }, { .kind = PS_OP_B, .stage = 1 } };

/* When messages were handed over and when they could be used, by the clock of all. A message is timed at both its ends.
 */
typedef struct
{
  gint64 sent_ns[MAX_ROUNDS];
  PsTransferTimes came[MAX_ROUNDS];
} Card;

typedef struct
{
  const PsTransportClass *class;
  PsTransport *transport;
  PsCrew *crew;
  guint first, n_here; /* players of this process */
  gint64 offset_ns;    /* what makes a time of this process one by the clock of all */
  gboolean remote;     /* the players are in two processes */
  PsSampler sampler;   /* player 0's */
} Game;

typedef struct
{
  Game *game;
  PsDeviceSetting setting;
  PsDevice *device;
  guint index; /* 0 pings, 1 pongs */
} Player;

GArray *
ps_transfer_sizes (gint64 boundary_bytes)
{
  GArray *sizes = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 previous = 0;
  for (gint64 size = SMALLEST_BYTES; previous < 4 * boundary_bytes; size *= 2)
    {
      if (previous < boundary_bytes && boundary_bytes < size)
        g_array_append_val (sizes, boundary_bytes);
      g_array_append_val (sizes, size);
      previous = size;
    }
  return sizes;
}

PsModel *
ps_model_with_boundary (gint64 bytes)
{
  PsModel *model = g_new0 (PsModel, 1);
  gint64 elements = bytes / (gint64)sizeof (float);
  gint64 hidden = 1;
  /* About square, so that neither side becomes absurd. */
  while (elements % (hidden * 2) == 0 && hidden * hidden < elements)
    hidden *= 2;
  gint64 sequence = elements / hidden, batch = 1;
  /* Heads and sequences of sizes that every device takes, although no op runs. */
  while (sequence % 2 == 0 && sequence > LONGEST_SEQUENCE)
    {
      sequence /= 2;
      batch *= 2;
    }
  *model = (PsModel){ .name = g_strdup ("transfer"),
                      .layers = 2,
                      .hidden = (guint)hidden,
                      .heads = (guint)MAX (hidden / HEAD_SIZE, 1),
                      .kv_heads = (guint)MAX (hidden / HEAD_SIZE, 1),
                      .sequence = (guint)sequence,
                      .feed_forward = 1,
                      .vocabulary = 2,
                      .microbatch_size = (guint)batch };
  return model;
}

static gboolean
send_message (Player *player, gint64 *sent_ns, GError **error)
{
  Game *game = player->game;
  PsTensor *tensor = player->device->class->tensor_new (player->device);
  if (!tensor)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "device %u: no memory for a message", player->index);
      return FALSE;
    }
  if (!ps_tensor_fill (tensor, player->setting.model->precision, 1.0F, error))
    {
      player->device->class->tensor_free (tensor);
      return FALSE;
    }
  *sent_ns = ps_clock_now () + game->offset_ns;
  return game->class->send (game->transport, player->index, 1 - player->index, messages[player->index], tensor, 0,
                            error);
}

static gboolean
take_message (Player *player, PsTransferTimes *came, GError **error)
{
  Game *game = player->game;
  guint from = 1 - player->index;
  PsTensor *tensor
      = game->class->wait (game->transport, player->index, from, messages[from], player->device, came, error);
  if (!tensor)
    return FALSE;
  player->device->class->tensor_free (tensor);
  if (came->start_ns > 0)
    came->start_ns += game->offset_ns;
  came->end_ns += game->offset_ns;
  return TRUE;
}

static gboolean
announce (Player *player, GError **error)
{
  Game *game = player->game;
  guint from = 1 - player->index;
  return game->class->receive (game->transport, player->index, from, messages[from], error);
}

static gboolean
play_rounds (Player *player, guint n, Card *card, GError **error)
{
  gboolean ok = TRUE;
  for (guint i = 0; i < n && ok; i++)
    {
      ok = announce (player, error) && (player->index == 1 || send_message (player, &card->sent_ns[i], error))
           && take_message (player, &card->came[i], error)
           && (player->index == 0 || send_message (player, &card->sent_ns[i], error));
    }
  return ok && player->game->class->flush (player->game->transport, player->index, error);
}

/* From `from`'s call until the other could use it. Some classes don't know at the receiver's end when it was sent. */
static gint64
transfer_ns (const Card *cards, guint from, guint round)
{
  const PsTransferTimes *came = &cards[1 - from].came[round];
  return came->end_ns - (came->start_ns > 0 ? came->start_ns : cards[from].sent_ns[round]);
}

/* Between processes, where clocks may be off against each other, there and back count together: the error cancels. */
static void
add_samples (Game *game, const Card *cards, guint n, gint64 begin_ns)
{
  for (guint i = 0; i < n; i++)
    {
      gint64 there = transfer_ns (cards, 0, i), back = transfer_ns (cards, 1, i);
      gint64 elapsed = cards[0].came[i].end_ns - begin_ns;
      ps_sampler_add (&game->sampler, game->remote ? (there + back) / 2 : there, elapsed);
      if (!game->remote)
        ps_sampler_add (&game->sampler, back, elapsed);
    }
}

/* PsTransportGroup.exchange, and how players tell each other things. */
static gboolean
exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  const Game *game = data;
  return ps_crew_exchange (game->crew, device - game->first, mine, n_bytes, all, error);
}

static void
fail (gpointer data, GError *error)
{
  ps_crew_fail (((Game *)data)->crew, error);
}

static void
abort_transport (gpointer data)
{
  Game *game = data;
  game->class->abort (game->transport);
}

/* Until player 0 has samples enough. */
static gboolean
play_joined (Player *player, GError **error)
{
  Game *game = player->game;
  gint64 begin_ns = ps_clock_now () + game->offset_ns;
  guint8 stop[N_PLAYERS] = { 0 };
  for (guint n = 1; !stop[0]; n = MIN (2 * n, MAX_ROUNDS))
    {
      Card mine = { 0 }, cards[N_PLAYERS];
      if (!play_rounds (player, n, &mine, error) || !exchange (game, player->index, &mine, sizeof mine, cards, error))
        return FALSE;
      if (player->index == 0)
        add_samples (game, cards, n, begin_ns);
      guint8 enough = player->index == 0 && game->sampler.stop;
      if (!exchange (game, player->index, &enough, 1, stop, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
play (Player *player, GError **error)
{
  Game *game = player->game;
  if (!player->device->class->attach (player->device, error)
      || (game->class->join && !game->class->join (game->transport, player->index, player->device, error)))
    return FALSE;
  gboolean ok = play_joined (player, error);
  if (game->class->part)
    game->class->part (game->transport, player->index);
  return ok;
}

static gpointer
player_main (gpointer data)
{
  Player *player = data;
  GError *error = NULL;
  if (!play (player, &error))
    ps_crew_fail (player->game->crew, error);
  return NULL;
}

static void
run_players (Game *game, Player *players)
{
  GThread *threads[N_PLAYERS] = { NULL };
  GError *error = NULL;
  for (guint i = 0; i < game->n_here && !error; i++)
    threads[i] = g_thread_try_new (i == 0 ? "ping" : "pong", player_main, &players[i], &error);
  if (error)
    ps_crew_fail (game->crew, error);
  for (guint i = 0; i < game->n_here; i++)
    if (threads[i])
      g_thread_join (threads[i]);
}

static gboolean
play_game (const PsCalibration *calibration, const PsModel *model, Game *game, GError **error)
{
  const PsDeviceClass *class = calibration->device;
  Player players[N_PLAYERS] = { { 0 } };
  GError *failure = NULL;
  for (guint i = 0; i < game->n_here && !failure; i++)
    {
      players[i] = (Player){ .game = game, .index = game->first + i };
      players[i].setting = ps_calib_device_setting (calibration, model, N_PLAYERS, 1, game->first + i);
      players[i].setting.exclusive = game->class->exclusive;
      players[i].device = class->open (&players[i].setting, &failure);
    }
  ps_crew_watch (game->crew, abort_transport, game);
  if (failure)
    ps_crew_fail (game->crew, failure);
  else
    run_players (game, players);
  ps_crew_watch (game->crew, NULL, NULL);
  for (guint i = 0; i < game->n_here; i++)
    if (players[i].device)
      players[i].device->class->close (players[i].device);
  return ps_crew_check (game->crew, error);
}

static gboolean
open_transport (const PsCalibration *calibration, gsize bytes, Game *game, PsTransportGroup *group, GError **error)
{
  static const guint8 uses[N_PLAYERS * N_PLAYERS] = { 0, 1, 1, 0 };
  PsRendezvous *others = calibration->others;
  *group = (PsTransportGroup){ .data = game, .exchange = exchange, .fail = fail };
  PsTransportSetting setting = { .n_devices = N_PLAYERS,
                                 .message_bytes = bytes,
                                 .capacity = CAPACITY,
                                 .timeout_ns = TIMEOUT_NS,
                                 .first = game->first,
                                 .n_here = game->n_here,
                                 .local = others ? ps_rendezvous_local_rank (others) : 0,
                                 .n_replicas = 1,
                                 .uses = uses,
                                 .clock_offset_ns = game->offset_ns,
                                 .group = group };
  game->transport = calibration->transport->open (&setting, error);
  /* A row of the table may stand for a class in a module. */
  game->class = game->transport ? game->transport->class : NULL;
  return game->transport != NULL;
}

/* All messages of one size. */
static gboolean
play_size (const PsCalibration *calibration, gint64 bytes, Game *game, GError **error)
{
  PsRendezvous *others = calibration->others;
  g_autoptr (PsModel) model = ps_model_with_boundary (bytes);
  PsTransportGroup group;
  game->remote = others != NULL;
  game->n_here = others ? 1 : N_PLAYERS;
  game->first = others ? ps_rendezvous_rank (others) : 0;
  game->offset_ns = others ? ps_rendezvous_clock_offset (others, game->first, NULL) : 0;
  game->crew = ps_crew_new (game->n_here, others, TIMEOUT_NS);
  gboolean ok = open_transport (calibration, (gsize)bytes, game, &group, error);
  if (ok)
    {
      ok = play_game (calibration, model, game, error);
      game->class->close (game->transport);
    }
  ps_crew_free (game->crew);
  return ok;
}

static gboolean
measure_size (const PsCalibration *calibration, PsMeasurement *measurement, GError **error)
{
  PsSamplingRule rule = calibration->rule;
  Game game = { 0 };
  rule.time_limit_ns /= TIME_SHARE;
  if (calibration->others
      && !ps_rendezvous_send (calibration->others, 1, &measurement->bytes, sizeof measurement->bytes, error))
    return FALSE;
  ps_sampler_init (&game.sampler, &rule);
  gboolean ok = play_size (calibration, measurement->bytes, &game, error);
  if (ok)
    ps_sampler_finish (&game.sampler, measurement);
  measurement->taken = ps_moment_now ();
  ps_sampler_clear (&game.sampler);
  return ok;
}

gboolean
ps_answer_transfers (const PsCalibration *calibration, GError **error)
{
  for (;;)
    {
      g_autoptr (GBytes) order = ps_rendezvous_receive (calibration->others, 0, 0, error);
      Game game = { 0 };
      if (!order)
        return FALSE;
      if (g_bytes_get_size (order) == 0)
        return TRUE;
      g_assert (g_bytes_get_size (order) == sizeof (gint64));
      if (!play_size (calibration, *(const gint64 *)g_bytes_get_data (order, NULL), &game, error))
        return FALSE;
    }
}

gboolean
ps_calibrate_transfers (const PsCalibration *calibration, GError **error)
{
  g_autoptr (GArray) sizes = ps_transfer_sizes (ps_model_boundary_bytes (calibration->model));
  gboolean watched = FALSE;
  for (guint i = 0; i < sizes->len; i++)
    {
      g_autoptr (PsMeasurement) measurement = g_new0 (PsMeasurement, 1);
      gboolean wanted;
      measurement->subject = PS_SUBJECT_TRANSFER;
      measurement->shape = g_strdup ("");
      measurement->bytes = g_array_index (sizes, gint64, i);
      measurement->devices = 2;
      measurement->sharing = calibration->sharing;
      if (!calibration->wanted (measurement, calibration->data, &wanted, error))
        return FALSE;
      if (!wanted)
        continue;
      if ((!watched && !ps_watch (calibration, error)) || !measure_size (calibration, measurement, error)
          || !calibration->sink (measurement, calibration->data, error))
        return FALSE;
      watched = TRUE;
    }
  return TRUE;
}

gboolean
ps_end_transfers (const PsCalibration *calibration, GError **error)
{
  return !calibration->others || ps_rendezvous_send (calibration->others, 1, NULL, 0, error);
}
