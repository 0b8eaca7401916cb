/* mix.c - sums of colours over columns. */
#include "mix.h"

#include <math.h>
#include <string.h>

#define N_CHANNELS 3
#define SHADES 16 /* shades per channel */

typedef struct
{
  double covered; /* part of the column that boxes cover */
  double sum[N_CHANNELS];
} Column;

struct _PsPlotMix
{
  guint n_columns;
  double width;
  guint begin; /* columns that boxes touch: begin .. end - 1 */
  guint end;
  Column *columns;
};

static void
restart (PsPlotMix *mix)
{
  memset (mix->columns, 0, mix->n_columns * sizeof *mix->columns);
  mix->begin = mix->n_columns;
  mix->end = 0;
}

PsPlotMix *
ps_plot_mix_new (guint n_columns, double column)
{
  PsPlotMix *mix = g_new0 (PsPlotMix, 1);

  mix->n_columns = n_columns;
  mix->width = column;
  mix->columns = g_new (Column, n_columns);
  restart (mix);
  return mix;
}

void
ps_plot_mix_free (PsPlotMix *mix)
{
  if (mix == NULL)
    return;
  g_free (mix->columns);
  g_free (mix);
}

void
ps_plot_mix_add (PsPlotMix *mix, guint32 colour, double left, double right)
{
  guint first = (guint)MAX (0, left / mix->width), last = (guint)MAX (0, ceil (right / mix->width));

  for (guint i = first; i < MIN (last, mix->n_columns); i++)
    {
      Column *column = &mix->columns[i];
      double part = (MIN (right, (i + 1) * mix->width) - MAX (left, i * mix->width)) / mix->width;

      if (part <= 0)
        continue;
      column->covered += part;
      for (guint channel = 0; channel < N_CHANNELS; channel++)
        column->sum[channel] += part * (colour >> 8 * channel & 0xff);
      mix->begin = MIN (mix->begin, i);
      mix->end = MAX (mix->end, i + 1);
    }
}

static guint32
column_colour (const Column *column)
{
  double covered = MAX (column->covered, 1);
  guint32 colour = 0;

  for (guint channel = 0; channel < N_CHANNELS; channel++)
    {
      double mean = (column->sum[channel] + (covered - column->covered) * 0xff) / covered;
      guint32 step = (guint32)lround (mean / 0xff * (SHADES - 1));

      colour |= step * 0xff / (SHADES - 1) << 8 * channel;
    }
  return colour;
}

void
ps_plot_mix_flush (PsPlotMix *mix, PsPlotStrokes *strokes, double y, double width)
{
  for (guint i = mix->begin; i < mix->end; i++)
    if (mix->columns[i].covered > 0)
      ps_plot_strokes_add (strokes, column_colour (&mix->columns[i]), i * mix->width, (i + 1) * mix->width, y, width);
  restart (mix);
}
