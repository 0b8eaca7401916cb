/* bypass.c - steps without a barrier, their validation, and the way back. */
#include "bypass.h"

#include "clock.h"
#include "show.h"
#include "sum.h"
#include "tie.h"

#include <math.h>
#include <string.h>

#define UNKNOWN (-1.0)
#define EPSILON 1e-6 /* PyTorch's clip_grad_norm_ adds it to the norm */

/* Where a message stands in the scripts of its devices. */
typedef struct
{
  guint sender, receiver; /* devices */
  guint send, receive, wait;
} Places;

static Places *
find_places (const PsScript *scripts, const PsProgram *program)
{
  Places *places = g_new0 (Places, program->n_messages + 1);

  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    for (guint i = 0; i < scripts[device].n_actions; i++)
      {
        const PsInstruction *instruction = &scripts[device].actions[i].instruction;
        Places *at = instruction->message > 0 ? &places[instruction->message - 1] : NULL;

        if (instruction->type == PS_INSTRUCTION_SEND)
          *at = (Places){ device, at->receiver, i, at->receive, at->wait };
        else if (instruction->type == PS_INSTRUCTION_RECEIVE)
          *at = (Places){ at->sender, device, at->send, i, at->wait };
        else if (instruction->type == PS_INSTRUCTION_WAIT)
          at->wait = i;
      }
  return places;
}

/* The first backward of a device, or the wait for its gradient. */
static guint
first_backward (const PsScript *script)
{
  guint i = 0;

  while (i < script->n_actions
         && (script->actions[i].instruction.op.kind == PS_OP_F
             || ps_instruction_is_post (&script->actions[i].instruction)))
    i++;
  return i;
}

/* Moves the place to the first op of a pair that it would cut. */
static guint
before_pair (const PsScript *script, guint place)
{
  guint i = place;

  while (i > 0 && script->actions[i - 1].instruction.type != PS_INSTRUCTION_COMPUTE)
    i--;
  return i > 0 && script->actions[i - 1].instruction.op.paired ? i - 1 : place;
}

/* No device may wait for a message before its place that is sent only after the sender's: the sender may take all back
 * at its place. Moves places to the front until that holds. */
static void
close_places (PsBypassPlan *plans, const PsScript *scripts, const PsProgram *program, const Places *places)
{
  gboolean moved = TRUE;

  while (moved)
    {
      moved = FALSE;
      for (guint i = 0; i < program->n_messages; i++)
        {
          const Places *at = &places[i];
          guint *place = &plans[at->receiver].validate;

          if (at->wait >= *place || at->send < plans[at->sender].validate)
            continue;
          *place = before_pair (&scripts[at->receiver], at->wait);
          moved = TRUE;
        }
    }
}

PsBypassPlan *
ps_bypass_plans_new (const PsScript *scripts, const PsProgram *program)
{
  guint n_devices = program->schedule->placement->n_devices;
  PsBypassPlan *plans = g_new0 (PsBypassPlan, n_devices);
  g_autofree Places *places = find_places (scripts, program);

  for (guint i = 0; i < n_devices; i++)
    {
      plans[i].validate = before_pair (&scripts[i], first_backward (&scripts[i]));
      plans[i].posted = g_new0 (guint8, scripts[i].n_actions);
      plans[i].stray = g_array_new (FALSE, FALSE, sizeof (PsInstruction));
    }
  close_places (plans, scripts, program, places);
  for (guint i = 0; i < program->n_messages; i++)
    {
      const Places *at = &places[i];
      PsBypassPlan *plan = &plans[at->receiver];
      gboolean sent = at->send < plans[at->sender].validate;

      if (sent && at->wait >= plan->validate)
        g_array_append_val (
            plan->stray,
            scripts[at->receiver].actions[at->receive < plan->validate ? at->wait : at->receive].instruction);
      plan->posted[at->receive] = at->receive < plan->validate && !sent;
    }
  return plans;
}

void
ps_bypass_plans_free (PsBypassPlan *plans, guint n_devices)
{
  if (plans == NULL)
    return;
  for (guint i = 0; i < n_devices; i++)
    {
      g_free (plans[i].posted);
      g_array_unref (plans[i].stray);
    }
  g_free (plans);
}

float
ps_bypass_scale (const double *squares, guint n_stages, double clip)
{
  double sum = 0, scale;

  for (guint i = 0; i < n_stages; i++)
    sum += squares[i] != UNKNOWN ? squares[i] : 0;
  if (!isfinite (sum))
    return 0;
  scale = clip > 0 ? clip / (sqrt (sum) + EPSILON) : 1;
  return scale < 1 ? (float)scale : 1;
}

static guint
count_stages (const PsWorker *worker)
{
  return worker->run->program->schedule->placement->n_stages;
}

/* Forgets all norms but those of the device's own stages. Devices that share layers add up those of their parts. */
static gboolean
find_own_squares (PsWorker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  const PsDeviceSetting *setting = &worker->setting;

  for (guint i = 0; i < count_stages (worker); i++)
    worker->squares[i] = UNKNOWN;
  for (guint i = 0; class->computes && i < worker->script->n_stages; i++)
    {
      double *square = &worker->squares[worker->script->stages[i]];

      *square = class->norm_square (worker->device, worker->script->stages[i]);
      float sum = (float)*square;
      if (setting->n_tensor > 1 && !setting->add_up (setting->add_up_data, &sum, 1, error))
        return FALSE;
      *square = setting->n_tensor > 1 ? sum : *square;
    }
  return TRUE;
}

static void
take_squares (PsWorker *worker, const double *squares)
{
  for (guint i = 0; i < count_stages (worker); i++)
    if (squares[i] != UNKNOWN)
      worker->squares[i] = squares[i];
}

gboolean
ps_bypass_meet (PsWorker *worker, GError **error)
{
  PsRun *run = worker->run;
  guint n_stages = count_stages (worker), n_devices = run->program->schedule->placement->n_devices;
  g_autofree double *all = g_new (double, (gsize)n_stages *n_devices * run->n_pipelines);

  if (run->setting->clip == 0 || !worker->device->class->computes)
    return TRUE;
  if (!find_own_squares (worker, error)
      || !ps_crew_exchange (run->crew, ps_worker_member (worker), worker->squares, n_stages * sizeof *all, all, error))
    return FALSE;
  for (guint i = 0; i < n_devices; i++)
    take_squares (worker, all + (gsize)i * n_stages);
  worker->scale = ps_bypass_scale (worker->squares, n_stages, run->setting->clip);
  return TRUE;
}

/* No message between stages has this name. */
static PsOp
name (guint device)
{
  return (PsOp){ .kind = PS_OP_R, .stage = (guint16)device };
}

static gboolean
send_squares (PsWorker *worker, guint to, GError **error)
{
  return ps_worker_send (worker, to, name (worker->index), worker->squares,
                         count_stages (worker) * sizeof *worker->squares, error);
}

static gboolean
receive_squares (PsWorker *worker, guint from, GError **error)
{
  gsize n_bytes = count_stages (worker) * sizeof *worker->squares;
  g_autofree double *squares = g_memdup2 (worker->squares, n_bytes); /* which a message without contents leaves */

  if (!ps_worker_receive (worker, from, name (from), error)
      || !ps_worker_take (worker, from, name (from), squares, n_bytes, error))
    return FALSE;
  take_squares (worker, squares);
  return TRUE;
}

static float
find_scale (const PsWorker *worker)
{
  return worker->device->class->computes
             ? ps_bypass_scale (worker->squares, count_stages (worker), worker->run->setting->clip)
             : 1;
}

/* The norms of the devices before this one come in, those with its own go out. */
static gboolean
hand_on (PsWorker *worker, GError **error)
{
  guint last = worker->run->program->schedule->placement->n_devices - 1;
  gboolean done = worker->index == 0 || receive_squares (worker, worker->index - 1, error);

  if (worker->index < last)
    return done && send_squares (worker, worker->index + 1, error);
  for (guint i = 0; done && i < last; i++)
    done = send_squares (worker, i, error);
  return done;
}

/* Ends a step: O runs early unless the norms known so far rule it out. */
static gboolean
end_step (PsWorker *worker, guint step, GError **error)
{
  if (!ps_worker_sum (worker, error))
    return FALSE;
  for (guint i = 0; worker->device->class->computes && i < worker->script->n_stages; i++)
    if (!ps_show_gradients (worker, step, worker->script->stages[i], error))
      return FALSE;
  if (!find_own_squares (worker, error) || !hand_on (worker, error))
    return FALSE;
  worker->scale = find_scale (worker) == 1 ? 1 : -1;
  if (!ps_worker_update (worker, step, error))
    return FALSE;
  return ps_worker_note_end (worker, step, error);
}

/* Makes the O of a step final. *valid: the early O was right everywhere. */
static gboolean
validate (PsWorker *worker, guint step, gboolean *valid, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  guint last = worker->run->program->schedule->placement->n_devices - 1;

  if (worker->index < last && !receive_squares (worker, last, error))
    return FALSE;
  float scale = find_scale (worker);
  *valid = scale == 1;
  if (!class->computes)
    return TRUE;
  if (!ps_worker_turn_to (worker, step, error))
    return FALSE;
  for (guint i = 0; i < worker->script->n_stages; i++)
    if (!class->settle (worker->device, worker->script->stages[i], scale, error))
      return FALSE;
  return TRUE;
}

/* Takes and frees the messages that were sent with wrong contents. */
static gboolean
drop_strays (PsWorker *worker, const PsBypassPlan *plan, GError **error)
{
  for (guint i = 0; i < plan->stray->len; i++)
    {
      const PsInstruction *wait = &g_array_index (plan->stray, PsInstruction, i);

      if ((wait->type == PS_INSTRUCTION_RECEIVE && !ps_worker_receive (worker, wait->peer, wait->op, error))
          || !ps_worker_take (worker, wait->peer, wait->op, NULL, 0, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
go_back (PsWorker *worker, const PsBypassPlan *plan, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  class->forget (worker->device);
  for (guint i = 0; i < worker->script->n_slots; i++)
    if (worker->slots[i] != NULL)
      class->tensor_free (g_steal_pointer (&worker->slots[i]));
  if (ps_worker_keeps_time (worker))
    worker->run->result->n_rollbacks++;
  return drop_strays (worker, plan, error);
}

static gboolean
run_step (PsWorker *worker, guint step, GError **error)
{
  const PsBypassPlan *plan = &worker->run->plans[worker->index];
  gboolean valid = step == 0, again = FALSE;

  for (guint i = 0; i < worker->script->n_actions; i++)
    {
      const PsAction *action = &worker->script->actions[i];

      if (i == plan->validate && step > 0 && !again)
        {
          if (!validate (worker, step - 1, &valid, error))
            return FALSE;
          again = !valid;
          if (again && !go_back (worker, plan, error))
            return FALSE;
          if (again)
            i = 0;
          action = &worker->script->actions[i];
        }
      if (again && i < plan->validate && plan->posted[i])
        continue;
      if (!ps_worker_act (worker, action, step, error))
        return FALSE;
    }
  return end_step (worker, step, error);
}

gboolean
ps_bypass_run (PsWorker *worker, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  gboolean valid;
  guint step;

  for (step = 0; step < (guint)g_atomic_int_get (&recorder->n_steps); step++)
    if (!run_step (worker, step, error))
      return FALSE;
  if (!validate (worker, step - 1, &valid, error))
    return FALSE;
  if (!valid && ps_worker_keeps_time (worker))
    worker->run->result->n_rollbacks++;
  return TRUE;
}
