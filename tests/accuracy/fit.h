/* fit.h - the constants of a cluster that its data sets agree with best. */
#pragma once

#include "figures.h"

/* Changes the constants of the cluster that data/README.md calls fitted, so that the mean over its data sets of their
 * mean errors without sign in time is least: one constant after the other, by steps that shrink. Rows i of `rows` with
 * use[i] FALSE do not count. keys: of the constants that may change; NULL: all that the
 * file of the cluster states. Returns that mean. */
double fit_cluster (GPtrArray *rows, const char *name, PsCluster *cluster, const gboolean *use,
                    const char *const *keys);

/* Gives a cluster the constants of another one: its machine is left out. */
void fit_copy (PsCluster *cluster, const PsCluster *from);

/* Prints the constants as lines of a cluster's file. */
void fit_print (const PsCluster *cluster);
