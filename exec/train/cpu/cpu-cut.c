/* cpu-cut.c - says how each matrix of a layer is cut. */
#include "cpu-cut.h"

#include <string.h>

#include "cpu-slot.h"

/* Parameters that lie one after the other. Cut ones are rows of equal pieces, a piece for each device: a matrix that is
 * cut by rows counts as one row. */
typedef struct {
  gsize rows, columns;
  gboolean cut;
} Block;

typedef enum {
  CUT,   /* copies this device's part of an array of the whole stage */
  JOIN,  /* copies it back, as far as this device answers for it */
  COUNT, /* adds up the squares of that */
} Purpose;

/* An array of this device, walked along, and the place in that of the whole stage. */
typedef struct {
  const PsCpuSizes *sizes;
  Purpose purpose;
  float *own;
  float *whole; /* NULL: to COUNT */
  gsize place;
  float factor; /* of all numbers, to COUNT */
  double sum;
} Walk;

static void count_squares (Walk *walk, gsize n)
{
  for (gsize i = 0; i < n; i++)
    walk->sum += (double)(walk->own[i] * walk->factor) * (walk->own[i] * walk->factor);
}

/* The first device answers for what all have. */
static void walk_block (Walk *walk, Block block)
{
  const gsize n = block.cut ? block.columns / (gsize)walk->sizes->parts : block.columns;
  const gsize skip = block.cut ? n * (gsize)walk->sizes->part : 0;
  const gboolean answers = block.cut || walk->sizes->part == 0;

  for (gsize i = 0; i < block.rows; i++, walk->own += n, walk->place += block.columns)
    if (walk->purpose == CUT)
      memcpy (walk->own, walk->whole + walk->place + skip, n * sizeof (float));
    else if (answers && walk->purpose == JOIN)
      memcpy (walk->whole + walk->place + skip, walk->own, n * sizeof (float));
    else if (answers)
      count_squares (walk, n);
}

/* In the order of PsCpuLayer. */
static void walk_layer (Walk *walk)
{
  const gsize h = (gsize)walk->sizes->hidden, f = (gsize)walk->sizes->feed_forward * (gsize)walk->sizes->parts;
  const Block blocks[] = {
    { 1, 2 * h, FALSE }, /* first norm */
    { 3 * h, h, TRUE },  /* wqkv: rows of query, key and value */
    { 3, h, TRUE },      /* bqkv */
    { 1, h * h, TRUE },  /* wo */
    { 1, 3 * h, FALSE }, /* bo, second norm */
    { h, f, TRUE },      /* w1 */
    { 1, f, TRUE },      /* b1 */
    { 1, f * h, TRUE },  /* w2 */
    { 1, h, FALSE },     /* b2 */
  };

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    walk_block (walk, blocks[i]);
}

static void walk_stage (const PsCpuStage *stage, Walk *walk)
{
  const PsStageShape *shape = &stage->shape;

  walk->sizes = &stage->context->sizes;
  if (shape->embedding)
    walk_block (walk, (Block){ 1, ps_cpu_embedding_parameters (walk->sizes), FALSE });
  for (guint i = 0; i < shape->n_layers; i++)
    walk_layer (walk);
  if (shape->head)
    walk_block (walk, (Block){ 1, ps_cpu_head_parameters (walk->sizes), FALSE });
}

void ps_cpu_stage_cut (const PsCpuStage *stage, float *own, const float *whole)
{
  walk_stage (stage, &(Walk){ .purpose = CUT, .own = own, .whole = (float *)whole });
}

void ps_cpu_stage_join (const PsCpuStage *stage, const float *own, float *whole)
{
  memset (whole, 0, stage->n_whole * sizeof *whole);
  walk_stage (stage, &(Walk){ .purpose = JOIN, .own = (float *)own, .whole = whole });
}

double ps_cpu_stage_squares (const PsCpuStage *stage, const float *own, float factor)
{
  Walk walk = { .purpose = COUNT, .own = (float *)own, .factor = factor };

  walk_stage (stage, &walk);
  return walk.sum;
}
