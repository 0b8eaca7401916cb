/* pipesim.h - all of libpipesim. A first program needs three calls: ps_setting_new, whose members are the options of
 * the command line, ps_predict, and ps_prediction_free (docs/example.c). device.h and transport.h belong to
 * libpipesim-exec and stand apart. */
#ifndef PIPESIM_PIPESIM_H
#define PIPESIM_PIPESIM_H

#include <pipesim/base.h>
#include <pipesim/option.h>
#include <pipesim/philox.h>
#include <pipesim/model.h>
#include <pipesim/cluster.h>
#include <pipesim/work.h>
#include <pipesim/costs.h>
#include <pipesim/costdb.h>
#include <pipesim/schedule.h>
#include <pipesim/program.h>
#include <pipesim/simulate.h>
#include <pipesim/bound.h>
#include <pipesim/answer.h>
#include <pipesim/timeline.h>
#include <pipesim/formats.h>
#include <pipesim/observe.h>
#include <pipesim/search.h>
#include <pipesim/partition.h>
#include <pipesim/setting.h>
#include <pipesim/sweep.h>
#include <pipesim/plan.h>

#endif
