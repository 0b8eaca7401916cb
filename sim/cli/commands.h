/* commands.h - the subcommands that the program pipesim holds itself; main.c has their table.
 *
 * Each reads its own arguments (argv[0] is the subcommand's name) and prints data to stdout and talk to stderr. It
 * returns the exit code: 0 done, 3 done but outside the tolerance asked for. On failure it sets *error and main decides
 * the code.
 */
#pragma once

#include <pipesim/base.h>

int ps_cmd_predict (int argc, char **argv, GError **error);
int ps_cmd_search (int argc, char **argv, GError **error);
int ps_cmd_schedule (int argc, char **argv, GError **error);
int ps_cmd_partition (int argc, char **argv, GError **error);
int ps_cmd_pareto (int argc, char **argv, GError **error);
int ps_cmd_best (int argc, char **argv, GError **error);
int ps_cmd_sensitivity (int argc, char **argv, GError **error);
int ps_cmd_plan (int argc, char **argv, GError **error);
int ps_cmd_sweep (int argc, char **argv, GError **error);
int ps_cmd_compare (int argc, char **argv, GError **error);
int ps_cmd_models (int argc, char **argv, GError **error);
int ps_cmd_clusters (int argc, char **argv, GError **error);
