/* transfers.c - times messages of many sizes between two device threads by ping-pong. What counts is what the consumer
 * sees: from the sender's call until the receiver holds the data. */
#include "transfers.h"

#include "provenance.h"
#include "watch.h"

#include <string.h>

#define SMALLEST_BYTES 8
#define CAPACITY 2
#define HEAD_SIZE 64
#define LONGEST_SEQUENCE 1024
#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* There are some twenty sizes: together they get about two rotations' time. */
#define TIME_SHARE 10

#define N_PLAYERS 2

static const PsOp ping_message = { .kind = PS_OP_F, .stage = 0 };
static const PsOp pong_message = { .kind = PS_OP_B, .stage = 1 };

typedef struct
{
  const PsTransportClass *class;
  PsTransport *transport;
  PsSampler sampler;
  PsTransferTimes ping; /* the latest; written by the ponging side before it answers */
  gboolean last;        /* written by the pinging side before it sends the last message */

  GMutex mutex;
  GCond changed;
  GError *error;                 /* the first */
  gconstpointer card[N_PLAYERS]; /* what each brings to an exchange */
  guint n_waiting;               /* for the other at a meeting */
  guint n_meetings;
} PingPong;

typedef struct
{
  PingPong *game;
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
send_message (Player *player, PsOp message, GError **error)
{
  PingPong *game = player->game;
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
  return game->class->send (game->transport, player->index, 1 - player->index, message, tensor, 0, error);
}

static gboolean
take_message (Player *player, PsOp message, PsTransferTimes *times, GError **error)
{
  PingPong *game = player->game;
  PsTensor *tensor
      = game->class->wait (game->transport, player->index, 1 - player->index, message, player->device, times, error);
  if (tensor)
    player->device->class->tensor_free (tensor);
  return tensor != NULL;
}

static gboolean
announce (Player *player, PsOp message, GError **error)
{
  PingPong *game = player->game;
  return game->class->receive (game->transport, player->index, 1 - player->index, message, error);
}

static gboolean
ping (Player *player, GError **error)
{
  PingPong *game = player->game;
  gint64 begin = ps_calib_now ();
  while (!game->last)
    {
      PsTransferTimes back;
      /* One exchange after the sampler had enough ends the game for the other side, too. */
      game->last = game->sampler.stop != NULL;
      if (!announce (player, pong_message, error) || !send_message (player, ping_message, error)
          || !take_message (player, pong_message, &back, error))
        return FALSE;
      gint64 elapsed = ps_calib_now () - begin;
      ps_sampler_add (&game->sampler, game->ping.end_ns - game->ping.start_ns, elapsed);
      ps_sampler_add (&game->sampler, back.end_ns - back.start_ns, elapsed);
    }
  return TRUE;
}

static gboolean
pong (Player *player, GError **error)
{
  PingPong *game = player->game;
  for (gboolean last = FALSE; !last;)
    {
      if (!announce (player, ping_message, error) || !take_message (player, ping_message, &game->ping, error))
        return FALSE;
      last = game->last;
      if (!send_message (player, pong_message, error))
        return FALSE;
    }
  return TRUE;
}

/* Waits for the other side; FALSE when it has failed. Under mutex. */
static gboolean
meet (PingPong *game)
{
  guint meeting = game->n_meetings;
  if (++game->n_waiting == N_PLAYERS)
    {
      game->n_waiting = 0;
      game->n_meetings++;
      g_cond_broadcast (&game->changed);
    }
  while (game->n_meetings == meeting && !game->error)
    g_cond_wait (&game->changed, &game->mutex);
  return !game->error;
}

/* PsTransportGroup.exchange of two threads. */
static gboolean
exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  PingPong *game = data;
  g_mutex_lock (&game->mutex);
  game->card[device] = mine;
  gboolean ok = meet (game);
  for (guint i = 0; i < N_PLAYERS && ok; i++)
    memcpy ((char *)all + i * n_bytes, game->card[i], n_bytes);
  ok = ok && meet (game);
  g_mutex_unlock (&game->mutex);
  if (!ok)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "device %u: the other device has failed", device);
  return ok;
}

/* Takes the error; only the first one counts. */
static void
fail (gpointer data, GError *error)
{
  PingPong *game = data;
  g_mutex_lock (&game->mutex);
  if (game->error)
    g_error_free (error);
  else
    game->error = error;
  g_cond_broadcast (&game->changed);
  g_mutex_unlock (&game->mutex);
  game->class->abort (game->transport);
}

static gboolean
play_joined (Player *player, GError **error)
{
  PingPong *game = player->game;
  return (player->index == 0 ? ping (player, error) : pong (player, error))
         && game->class->flush (game->transport, player->index, error);
}

static gboolean
play (Player *player, GError **error)
{
  PingPong *game = player->game;
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
    fail (player->game, error);
  return NULL;
}

static gboolean
run_players (PingPong *game, Player *players, GError **error)
{
  GThread *threads[2] = { g_thread_try_new ("ping", player_main, &players[0], error), NULL };
  if (!threads[0])
    return FALSE;
  threads[1] = g_thread_try_new ("pong", player_main, &players[1], error);
  gboolean ok = threads[1] != NULL;
  if (ok)
    g_thread_join (threads[1]);
  else
    game->class->abort (game->transport);
  g_thread_join (threads[0]);
  if (ok && game->error)
    g_propagate_error (error, g_steal_pointer (&game->error));
  else
    g_clear_error (&game->error);
  return ok && game->sampler.stop;
}

static gboolean
play_game (const PsCalibration *calibration, const PsModel *model, PingPong *game, GError **error)
{
  const PsDeviceClass *class = calibration->device;
  Player players[N_PLAYERS] = { { 0 } };
  gboolean ok = TRUE;
  for (guint i = 0; i < N_PLAYERS && ok; i++)
    {
      players[i] = (Player){ .game = game, .index = i };
      players[i].setting = ps_calib_device_setting (calibration, model, N_PLAYERS, 1, i);
      players[i].setting.exclusive = game->class->exclusive;
      players[i].device = class->open (&players[i].setting, error);
      ok = players[i].device != NULL;
    }
  ok = ok && run_players (game, players, error);
  for (guint i = 0; i < N_PLAYERS; i++)
    if (players[i].device)
      players[i].device->class->close (players[i].device);
  return ok;
}

static gboolean
measure_size (const PsCalibration *calibration, PsMeasurement *measurement, GError **error)
{
  PsSamplingRule rule = calibration->rule;
  static const guint8 uses[N_PLAYERS * N_PLAYERS] = { 0, 1, 1, 0 };
  PingPong game = { 0 };
  PsTransportGroup group = { .data = &game, .exchange = exchange, .fail = fail };
  PsTransportSetting setting = { .n_devices = N_PLAYERS,
                                 .message_bytes = (gsize)measurement->bytes,
                                 .capacity = CAPACITY,
                                 .timeout_ns = TIMEOUT_NS,
                                 .n_here = N_PLAYERS,
                                 .n_replicas = 1,
                                 .uses = uses,
                                 .group = &group };
  g_autoptr (PsModel) model = ps_model_with_boundary (measurement->bytes);
  rule.time_limit_ns /= TIME_SHARE;
  game.transport = calibration->transport->open (&setting, error);
  if (!game.transport)
    return FALSE;
  /* A row of the table may stand for a class in a module. */
  game.class = game.transport->class;
  g_mutex_init (&game.mutex);
  g_cond_init (&game.changed);
  ps_sampler_init (&game.sampler, &rule);
  gboolean ok = play_game (calibration, model, &game, error);
  if (ok)
    ps_sampler_finish (&game.sampler, measurement);
  measurement->taken = ps_moment_now ();
  ps_sampler_clear (&game.sampler);
  g_cond_clear (&game.changed);
  g_mutex_clear (&game.mutex);
  game.class->close (game.transport);
  return ok;
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
