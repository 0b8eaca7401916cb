/* classes.h - errors of predicted steps by class: machine, how much of it is known, bits of the products, dense layers
 * or experts. The interval that pipesim prints for a class comes from here (data/errors.csv). */
#pragma once

#include "rows.h"

/* The errors of each class, in the order of the rows. */
typedef struct _Classes Classes;

Classes *classes_new (void);
void classes_free (Classes *classes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Classes, classes_free)

/* Takes the errors of all rows as they are predicted now. values: "file" or "datasheet", what the machine is known by.
 */
void classes_take (Classes *classes, const GPtrArray *rows, const char *values);

/* The table of intervals, and how many rows left out lie in the interval of the others: those of the even rows in that
 * of the odd ones, and the reverse. */
void classes_print (const Classes *classes);

/* As data/errors.csv. Free with g_free. */
char *classes_to_csv (const Classes *classes);
