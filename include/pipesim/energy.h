/* energy.h - the energy of an iteration, and the least that the same time takes: ops that may take longer run at a
 * lower clock.
 *
 * A device draws power.idle watts all the time, and more while it runs an op: at the full clock as much as the power of
 * the op's kind is above idle. That part is dynamic power, C V^2 f. With the voltage in proportion to the clock it
 * falls with the third power of the clock, and the op takes longer in proportion (EnvPipe, ATC 2023; Perseus, arXiv
 * 2312.06902, section 3). So an op of energy e above idle takes e (t / d)^2 where its time t becomes d. Host times,
 * transfers and O do not change.
 */
#ifndef PIPESIM_ENERGY_H
#define PIPESIM_ENERGY_H

#include <pipesim/events.h>

G_BEGIN_DECLS

/* Watts of a device, that is of all its GPUs. */
typedef struct
{
  double watts[PS_N_OP_KINDS]; /* while it runs an op at the full clock; at least idle */
  double idle;                 /* else */
  double least_clock;          /* the lowest clock, as a part of the full one; in (0, 1] */
} PsPower;

/* Reads 'busy=650,idle=90,clock=0.5' and f, b, w, bw, r, o in place of busy for one kind; all in watts but clock. A
 * kind that is not given draws busy watts or, without busy, as much as the one that draws most. idle is 0 and clock 0.5
 * unless given. Errors: PS_ERROR_USAGE naming key and value. */
gboolean ps_power_parse (const char *where, const char *text, PsPower *power, GError **error);

typedef struct
{
  double full_joules;  /* an iteration at the full clock */
  double least_joules; /* with the clocks below */
  gint64 *duration_ns; /* [n_steps] time of each op at its clock, for ps_simulate_steps */
  double *clock;       /* [n_steps] as a part of the full clock; 1 for the first op of a pair */
} PsEnergy;

/* The least energy that leaves the iteration as it is: no op ends after the makespan, the last backward of a stage with
 * an all-reduce ends when it did, and the order of ops stays. simulation must be of this program under these costs and
 * events (NULL: transfers of pure latency). Where transfers queue they keep their times too.
 *
 * The energy is a convex function of the differences of times. It has its least value where moving no set
 * of times by one step makes it smaller, and a minimum cut finds the best set (Murota, Discrete Convex Analysis, 2003,
 * section 10.3). Steps are halved from half the makespan down to 1 ns, or to its 2^15th part if that is longer; the
 * energy is then within a few thousandths of a percent.
 *
 * NULL: an asynchronous schedule, or durations are not known beforehand, or a device takes part in transfers itself
 * (blocking). Free with ps_energy_free. */
PsEnergy *ps_energy_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                         const PsSimulation *simulation, const PsPower *power, gint64 iteration_ns);
void ps_energy_free (PsEnergy *energy);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEnergy, ps_energy_free)

G_END_DECLS

#endif
