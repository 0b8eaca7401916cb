/* game.c - plays. A transfer lasts as its consumer sees it: from the sender's call until the receiver holds the data.
 */
#include "game.h"

#include "beside.h"
#include "clock.h"
#include "train/conditions.h"
#include "run/crew.h"

#define LONGEST_SEQUENCE 1024
#define HEAD_SIZE 64

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* Stages of the model that the messages belong to. */
#define N_STAGES 2

/* Most rounds between two looks at the samples; the number doubles up to this. */
#define MAX_ROUNDS 16U

static const PsOp messages[N_STAGES] = { { .kind = PS_OP_F, .stage = 0 }, { .kind = PS_OP_B, .stage = 1 } };

PsModel *ps_model_with_boundary (gint64 bytes)
{
  PsModel *model = g_new0 (PsModel, 1);
  gint64 elements = bytes / (gint64)sizeof (float);
  gint64 hidden = 1;

  /* hidden and sequence become about equal, so that neither is absurd. */
  while (elements % (hidden * 2) == 0 && hidden * hidden < elements)
    hidden *= 2;
  gint64 sequence = elements / hidden, batch = 1;
  /* Heads and sequences have sizes that every device takes, although no op runs. */
  while (sequence % 2 == 0 && sequence > LONGEST_SEQUENCE) {
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

void ps_game_tell_others (const PsCalibration *calibration, const PsGameOrder *order)
{
  PsProcesses *processes = calibration->processes;

  for (guint rank = 1; rank < ps_processes_n_ranks (processes); rank++)
    processes->send (processes, rank, order, sizeof *order);
}

/* When messages were handed over and when they could be used, by the clock of all. A message is timed at both its ends.
 * An all-reduce has its begin and its end here. */
typedef struct {
  gint64 sent_ns[MAX_ROUNDS];
  PsTransferTimes came[MAX_ROUNDS];
} Card;

typedef struct {
  const PsTransportClass *class;
  PsTransport *transport;
  PsCrew *crew;
  PsWay way;
  guint n_players;
  guint n_pairs;       /* 2: players i and i + 2 make a pair; 1: those of the link do; further players wait */
  guint link[2];       /* devices; in one process players 0 and 1 stand for them */
  guint first, n_here; /* players of this process */
  guint8 *uses;        /* PsTransportSetting.uses */
  gint64 offset_ns;    /* what makes a time of this process one by the clock of all */
  gboolean remote;     /* each player is in a process of its own */
  PsSampler *sampler;  /* player 0's */
} Game;

typedef struct {
  Game *game;
  PsDeviceSetting setting;
  PsDevice *device;
  guint index;   /* the lower one of a pair pings, the other pongs */
  guint partner; /* its own index: it waits */
  PsTensor *sum; /* of an all-reduce */
} Player;

/* Its own index: it waits. */
static guint partner_of (const Game *game, guint index)
{
  guint n = 2 * game->n_pairs;

  if (game->remote && game->n_pairs == 1)
    return index == game->link[0] ? game->link[1] : index == game->link[1] ? game->link[0] : index;
  return index < n ? (index + game->n_pairs) % n : index;
}

static PsOp message_of (const Game *game, guint player)
{
  return messages[player < partner_of (game, player) ? 0 : 1];
}

static gboolean send_message (Player *player, gint64 *sent_ns, GError **error)
{
  Game *game = player->game;
  PsTensor *tensor = player->device->class->tensor_new (player->device);

  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory for a message", player->index);
  if (!ps_tensor_fill (tensor, player->setting.model->precision, 1.0F, error)) {
    player->device->class->tensor_free (tensor);
    return FALSE;
  }
  *sent_ns = ps_clock_now () + game->offset_ns;
  return game->class->send (game->transport, player->index, player->partner, message_of (game, player->index), tensor,
                            0, error);
}

static gboolean take_message (Player *player, PsTransferTimes *came, GError **error)
{
  Game *game = player->game;
  PsTensor *tensor = game->class->wait (game->transport, player->index, player->partner,
                                        message_of (game, player->partner), player->device, came, error);

  if (tensor == NULL)
    return FALSE;
  player->device->class->tensor_free (tensor);
  if (came->start_ns > 0)
    came->start_ns += game->offset_ns;
  came->end_ns += game->offset_ns;
  return TRUE;
}

static gboolean announce (Player *player, GError **error)
{
  Game *game = player->game;

  return game->class->receive (game->transport, player->index, player->partner, message_of (game, player->partner),
                               error);
}

static gboolean play_round (Player *player, guint i, Card *card, GError **error)
{
  gboolean first = player->index < player->partner || player->game->way == PS_WAY_BOTH_WAYS;

  return announce (player, error) && (!first || send_message (player, &card->sent_ns[i], error))
         && take_message (player, &card->came[i], error) && (first || send_message (player, &card->sent_ns[i], error));
}

/* What the transport calls a player. For an all-reduce it numbers the devices of this process. */
static guint place_of (const Game *game, guint index)
{
  return game->way == PS_WAY_ALL_REDUCE ? index - game->first : index;
}

static gboolean add_up (Player *player, guint i, Card *card, GError **error)
{
  Game *game = player->game;

  card->sent_ns[i] = ps_clock_now ();
  gboolean ok = game->class->sum (game->transport, place_of (game, player->index), PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE,
                                  player->sum->data, player->sum->bytes / sizeof (float), error);
  card->came[i].end_ns = ps_clock_now ();
  return ok;
}

static gboolean play_rounds (Player *player, guint n, Card *card, GError **error)
{
  Game *game = player->game;
  gboolean ok = TRUE;

  for (guint i = 0; i < n && ok && game->way == PS_WAY_ALL_REDUCE; i++)
    ok = add_up (player, i, card, error);
  for (guint i = 0; i < n && ok && player->partner != player->index; i++)
    ok = play_round (player, i, card, error);
  return ok && (game->way == PS_WAY_ALL_REDUCE || game->class->flush (game->transport, player->index, error));
}

/* From the sender's call until the other could use it. Some classes don't know at the receiver's end when it was sent.
 */
static gint64 transfer_ns (const Card *from, const Card *to, guint round)
{
  const PsTransferTimes *came = &to->came[round];

  return came->end_ns - (came->start_ns > 0 ? came->start_ns : from->sent_ns[round]);
}

/* Between processes, where clocks may be off against each other, there and back count together: the error cancels. */
static void add_pair (Game *game, const Card *a, const Card *b, guint round, gint64 elapsed_ns)
{
  gint64 there = transfer_ns (a, b, round), back = transfer_ns (b, a, round);

  ps_sampler_add (game->sampler, game->remote ? (there + back) / 2 : there, elapsed_ns);
  if (!game->remote)
    ps_sampler_add (game->sampler, back, elapsed_ns);
}

static void add_samples (Game *game, const Card *cards, guint n, gint64 begin_ns)
{
  for (guint i = 0; i < n; i++) {
    gint64 elapsed = cards[0].came[i].end_ns - begin_ns;

    if (game->way == PS_WAY_ALL_REDUCE)
      ps_sampler_add (game->sampler, transfer_ns (&cards[0], &cards[0], i), elapsed);
    for (guint k = 0; k < game->n_players; k++)
      if (k < partner_of (game, k))
        add_pair (game, &cards[k], &cards[partner_of (game, k)], i, elapsed);
  }
}

/* PsTransportGroup.exchange, and how players tell each other things. */
static gboolean exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  const Game *game = data;
  guint member = game->way == PS_WAY_ALL_REDUCE && game->remote ? 0 : device - game->first;

  return ps_crew_exchange (game->crew, member, mine, n_bytes, all, error);
}

static void fail (gpointer data, GError *error)
{
  ps_crew_fail (((Game *)data)->crew, error);
}

static void abort_transport (gpointer data)
{
  Game *game = data;

  game->class->abort (game->transport);
}

/* Plays until player 0 has enough samples. */
static gboolean play_joined (Player *player, GError **error)
{
  Game *game = player->game;
  gint64 begin_ns = ps_clock_now () + game->offset_ns;
  g_autofree guint8 *stop = g_new0 (guint8, game->n_players);
  g_autofree Card *cards = g_new (Card, game->n_players);

  for (guint n = 1; !stop[0]; n = MIN (2 * n, MAX_ROUNDS)) {
    Card mine = { 0 };

    if (!play_rounds (player, n, &mine, error) || !exchange (game, player->index, &mine, sizeof mine, cards, error))
      return FALSE;
    if (player->index == 0)
      add_samples (game, cards, n, begin_ns);
    guint8 enough = player->index == 0 && game->sampler->stop != NULL;
    if (!exchange (game, player->index, &enough, 1, stop, error))
      return FALSE;
  }
  return TRUE;
}

/* Makes the tensor that is added up: its zeros stay zeros. */
static gboolean make_sum (Player *player, GError **error)
{
  if (player->game->way != PS_WAY_ALL_REDUCE)
    return TRUE;
  player->sum = player->device->class->tensor_new (player->device);
  if (player->sum != NULL)
    return ps_tensor_fill (player->sum, PS_PRECISION_FP32, 0, error);
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory to add up", player->index);
}

static gboolean play (Player *player, GError **error)
{
  Game *game = player->game;
  guint at = place_of (game, player->index);

  if (!player->device->class->attach (player->device, error) || !make_sum (player, error)
      || (game->class->join != NULL && !game->class->join (game->transport, at, player->device, error)))
    return FALSE;
  gboolean ok = play_joined (player, error);
  if (game->class->part != NULL)
    game->class->part (game->transport, at);
  return ok;
}

static gpointer player_main (gpointer data)
{
  Player *player = data;
  GError *error = NULL;

  if (!play (player, &error))
    ps_crew_fail (player->game->crew, error);
  if (player->sum != NULL)
    player->device->class->tensor_free (player->sum);
  return NULL;
}

static void run_players (Game *game, Player *players)
{
  g_autofree GThread **threads = g_new0 (GThread *, game->n_here);
  GError *error = NULL;

  for (guint i = 0; i < game->n_here && error == NULL; i++)
    threads[i] = g_thread_try_new (i == 0 ? "ping" : "pong", player_main, &players[i], &error);
  if (error != NULL)
    ps_crew_fail (game->crew, error);
  for (guint i = 0; i < game->n_here; i++)
    if (threads[i] != NULL)
      g_thread_join (threads[i]);
}

/* Each player has a place of its own, also where fewer devices are calibrated than there are players. */
static gboolean open_players (const PsCalibration *calibration, const PsModel *model, Game *game, Player *players,
                              GError **error)
{
  PsCalibration all = *calibration;

  if (game->n_players > all.n_local) {
    all.n_local = game->n_players;
    all.shares = NULL;
  }
  for (guint i = 0; i < game->n_here; i++) {
    guint index = game->first + i, device = game->n_pairs == 1 && !game->remote ? game->link[index] : index;

    players[i] = (Player){ .game = game, .index = index, .partner = partner_of (game, index) };
    players[i].setting = ps_calib_device_setting (&all, model, N_STAGES, 1, device);
    players[i].setting.exclusive = game->class->exclusive;
    players[i].device = calibration->device->open (&players[i].setting, error);
    if (players[i].device == NULL)
      return FALSE;
  }
  return TRUE;
}

/* during: of the first device here. */
static gboolean play_game (const PsCalibration *calibration, const PsModel *model, Game *game, PsCondition *during,
                           GError **error)
{
  g_autofree Player *players = g_new0 (Player, game->n_here);
  GError *failure = NULL;
  gboolean ok = open_players (calibration, model, game, players, &failure);
  gint64 begin_ns = ps_clock_now ();

  ps_crew_on_failure (game->crew, abort_transport, game);
  if (ok) {
    g_autoptr (PsConditions) conditions = ps_conditions_new (&players[0].device, 1);

    run_players (game, players);
    ps_conditions_median (conditions, 0, begin_ns, ps_clock_now (), during);
  } else
    ps_crew_fail (game->crew, failure);
  ps_crew_on_failure (game->crew, NULL, NULL);
  for (guint i = 0; i < game->n_here; i++)
    if (players[i].device != NULL)
      players[i].device->class->close (players[i].device);
  return ps_crew_check (game->crew, error);
}

/* For an all-reduce every player is a replica of a pipeline of one device. */
static gboolean open_transport (const PsCalibration *calibration, gsize bytes, Game *game, PsTransportGroup *group,
                                GError **error)
{
  gboolean replicas = game->way == PS_WAY_ALL_REDUCE;
  guint n = game->n_players;

  game->uses = g_new0 (guint8, (gsize)n * n);
  for (guint i = 0; i < n; i++)
    game->uses[i * n + partner_of (game, i)] = partner_of (game, i) != i;
  *group = (PsTransportGroup){ .data = game, .exchange = exchange, .fail = fail };
  PsTransportSetting setting = { .n_devices = replicas ? 1 : n,
                                 .message_bytes = bytes,
                                 .timeout_ns = TIMEOUT_NS,
                                 .first = replicas ? 0 : game->first,
                                 .n_here = game->n_here,
                                 .local = ps_processes_local_rank (calibration->processes),
                                 .pipeline = replicas ? game->first : 0,
                                 .n_replicas = replicas ? n : 1,
                                 .uses = game->uses,
                                 .clock_offset_ns = game->offset_ns,
                                 .group = group };
  game->transport = calibration->transport->open (&setting, error);
  /* A row of the table may stand for a class in a module. */
  game->class = game->transport != NULL ? game->transport->class : NULL;
  return game->transport != NULL;
}
gboolean ps_game_load_is_own (const PsCalibration *calibration)
{
  return calibration->transport->exclusive && calibration->device->splits;
}

/* Loads the players' accelerators if each has its own; else the devices that do not play, in the first process. */
static gboolean begin_load (const PsCalibration *calibration, const Game *game, PsLoad **load, GError **error)
{
  gboolean own = ps_game_load_is_own (calibration);
  guint first = own ? game->first : game->n_players;
  guint end = own ? MIN (game->first + game->n_here, 2 * game->n_pairs) : calibration->n_local;

  *load = NULL;
  if (game->way != PS_WAY_BESIDE_COMPUTE || first >= end || (!own && game->first > 0))
    return TRUE;
  *load = ps_load_new (calibration, first, end - first, error);
  return *load != NULL;
}

static gboolean play_on_transport (const PsCalibration *calibration, gint64 bytes, Game *game, PsCondition *during,
                                   GError **error)
{
  g_autoptr (PsModel) model = ps_model_with_boundary (bytes);
  PsTransportGroup group;

  if (!open_transport (calibration, (gsize)bytes, game, &group, error))
    return FALSE;
  gboolean ok = play_game (calibration, model, game, during, error);
  game->class->close (game->transport);
  return ok;
}

gboolean ps_game_play (const PsCalibration *calibration, const PsGameOrder *order, PsSampler *sampler,
                       PsCondition *during, GError **error)
{
  PsProcesses *processes = calibration->processes;
  PsLoad *load;
  Game game = { .way = (PsWay)order->way,
                .n_pairs = (guint)order->n_pairs,
                .link = { (guint)order->link[0], (guint)order->link[1] },
                .n_players = processes != NULL ? ps_processes_n_ranks (processes) : 2 * MAX ((guint)order->n_pairs, 1),
                .first = ps_processes_rank (processes),
                .remote = processes != NULL,
                .sampler = sampler };

  game.n_here = processes != NULL ? 1 : game.n_players;
  game.offset_ns = ps_processes_clock_offset (processes, game.first);
  if (!begin_load (calibration, &game, &load, error))
    return FALSE;
  game.crew = ps_crew_new (game.n_here, processes, TIMEOUT_NS);
  gboolean ok = play_on_transport (calibration, order->bytes, &game, during, error);
  ps_crew_free (game.crew);
  g_free (game.uses);
  return ps_load_end (load, ok ? error : NULL) && ok;
}
