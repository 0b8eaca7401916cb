/* strokes.c - many thin boxes as pieces of a few broad lines. */
#include "strokes.h"

#include "gnuplot.h"

#include <math.h>

typedef struct
{
  guint32 colour;
  double width;
  double left; /* the latest piece, which may still grow; NaN: none yet */
  double right;
  double y;
  GString *rows;
} Stroke;

struct _PsPlotStrokes
{
  GPtrArray *all; /* of Stroke */
  guint begin;    /* first of the lines that pieces are added to */
};

static void
stroke_free (gpointer data)
{
  g_string_free (((Stroke *)data)->rows, TRUE);
  g_free (data);
}

PsPlotStrokes *
ps_plot_strokes_new (void)
{
  PsPlotStrokes *strokes = g_new0 (PsPlotStrokes, 1);

  strokes->all = g_ptr_array_new_with_free_func (stroke_free);
  return strokes;
}

void
ps_plot_strokes_free (PsPlotStrokes *strokes)
{
  if (strokes == NULL)
    return;
  g_ptr_array_unref (strokes->all);
  g_free (strokes);
}

/* Finds the line to add to. There is one for each op kind, chunk and way to share a row; most pieces go to the line
 * used last. */
static Stroke *
find (PsPlotStrokes *strokes, guint32 colour, double width)
{
  Stroke *stroke;

  for (guint i = strokes->begin; i < strokes->all->len; i++)
    {
      stroke = strokes->all->pdata[i];
      if (stroke->colour == colour && stroke->width == width)
        return stroke;
    }
  stroke = g_new0 (Stroke, 1);
  *stroke = (Stroke){ .colour = colour, .width = width, .left = NAN, .rows = g_string_new (NULL) };
  g_ptr_array_add (strokes->all, stroke);
  return stroke;
}

static void
append_piece (GString *rows, const Stroke *stroke)
{
  if (!isnan (stroke->left))
    g_string_append_printf (rows, "%.9g %g\n%.9g %g\n\n", stroke->left, stroke->y, stroke->right, stroke->y);
}

void
ps_plot_strokes_add (PsPlotStrokes *strokes, guint32 colour, double left, double right, double y, double width)
{
  Stroke *stroke = find (strokes, colour, width);

  if (isnan (stroke->left) || stroke->y != y || stroke->right != left)
    {
      append_piece (stroke->rows, stroke);
      stroke->left = left;
      stroke->y = y;
    }
  stroke->right = right;
}

void
ps_plot_strokes_begin (PsPlotStrokes *strokes)
{
  strokes->begin = strokes->all->len;
}

guint
ps_plot_strokes_n (const PsPlotStrokes *strokes)
{
  return strokes->all->len;
}

void
ps_plot_strokes_append (const PsPlotStrokes *strokes, GString *script)
{
  guint n = strokes->all->len;

  g_string_append_printf (script, "array stroke_colour[%u]\narray stroke_width[%u]\n", MAX (n, 1), MAX (n, 1));
  for (guint i = 0; i < n; i++)
    {
      const Stroke *stroke = strokes->all->pdata[i];
      g_autofree char *width = g_strdup_printf ("stroke_width[%u]", i + 1);

      g_string_append_printf (script, "stroke_colour[%u] = %u\n$strokes%u << EOD\n%s", i + 1, stroke->colour, i + 1,
                              stroke->rows->str);
      append_piece (script, stroke);
      g_string_append (script, "EOD\n");
      ps_gnuplot_append_number (script, width, stroke->width);
    }
}
