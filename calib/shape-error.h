/* shape-error.h - how well times of some stage shapes say those of another. */
#pragma once

#include <pipesim/costdb.h>

/* Leaves out the ops of each shape in turn, and puts their times together from the parts of the other shapes: so much
 * for a layer, so much for an embedding, a head and so on, by least squares. Only ops of one kind that were measured in
 * the same way say anything about each other, and only where they know all parts. Returns the median |error| over ops,
 * NaN where nothing can be said; *n: the number of ops. */
double ps_shape_error (GPtrArray *measurements, guint *n);

/* One line for people that says so; empty where nothing can be left out. Free with g_free. */
char *ps_shape_error_to_text (GPtrArray *measurements);
