/* pipesim.h - all of libpipesim. A first program needs three calls: ps_setting_new, whose members are the options of
 * the command line, ps_predict, and ps_prediction_free (docs/example.c). device.h and transport.h belong to
 * libpipesim-exec and stand apart. */
#ifndef PIPESIM_PIPESIM_H
#define PIPESIM_PIPESIM_H

#include <pipesim/base.h>
#include <pipesim/option.h>
#include <pipesim/shipped.h>
#include <pipesim/philox.h>
#include <pipesim/model.h>
#include <pipesim/layout-string.h>
#include <pipesim/cluster.h>
#include <pipesim/tensor.h>
#include <pipesim/framework.h>
#include <pipesim/work.h>
#include <pipesim/work-time.h>
#include <pipesim/overlap.h>
#include <pipesim/costs.h>
#include <pipesim/lengths.h>
#include <pipesim/fit.h>
#include <pipesim/condition.h>
#include <pipesim/shares.h>
#include <pipesim/costdb.h>
#include <pipesim/places.h>
#include <pipesim/profile.h>
#include <pipesim/placement.h>
#include <pipesim/schedule.h>
#include <pipesim/families.h>
#include <pipesim/program.h>
#include <pipesim/simulate.h>
#include <pipesim/events.h>
#include <pipesim/iterations.h>
#include <pipesim/memory.h>
#include <pipesim/scenarios.h>
#include <pipesim/explain.h>
#include <pipesim/uncertainty.h>
#include <pipesim/intervals.h>
#include <pipesim/timeline.h>
#include <pipesim/formats.h>
#include <pipesim/safetensors.h>
#include <pipesim/observed.h>
#include <pipesim/report.h>
#include <pipesim/compare.h>
#include <pipesim/diagnosis.h>
#include <pipesim/bound.h>
#include <pipesim/search.h>
#include <pipesim/partition.h>
#include <pipesim/setting.h>
#include <pipesim/command.h>
#include <pipesim/sources.h>
#include <pipesim/predictor.h>
#include <pipesim/results.h>
#include <pipesim/questions.h>
#include <pipesim/sweep.h>
#include <pipesim/sweep-timelines.h>
#include <pipesim/layouts.h>
#include <pipesim/launch.h>

#endif
