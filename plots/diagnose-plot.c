/* diagnose-plot.c - lays out a diagnosis for diagnose.gp to draw. */
#include "diagnose-plot.h"

#include "scale.h"

/* Layout in pixels. */
#define WIDTH 1020
#define LEFT 210
#define RIGHT 170
#define TITLE 40
#define LEGEND 22 /* one line */
#define PANEL 34  /* heading above bars, and axis below them */
#define BAR 22
#define MAX_BARS 640 /* height of all devices together */
#define N_RIVALS 12
#define TEXT 0x222222

/* The blocks of diagnose.gp. */
typedef struct
{
  GString *boxes;
  GString *lines;
  GString *dashes;
  GString *lefts;
  GString *centres;
  GString *rights;
  guint width;
  double y;     /* everything above is drawn */
  double scale; /* pixels of a nanosecond */
} Canvas;

static void
canvas_init (Canvas *canvas)
{
  GString **all[]
      = { &canvas->boxes, &canvas->lines, &canvas->dashes, &canvas->lefts, &canvas->centres, &canvas->rights };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    *all[i] = g_string_new (NULL);
}

/* Appends all blocks to the script, and frees them. gnuplot wants a row in each: one outside the picture. */
static void
canvas_end (Canvas *canvas, GString *script)
{
  const struct
  {
    const char *name;
    GString *rows;
    const char *outside;
  } all[] = { { "boxes", canvas->boxes, "-9 -9 -9 -9 -9 -9 0" },
              { "lines", canvas->lines, "-9 -9" },
              { "dashes", canvas->dashes, "-9 -9" },
              { "lefts", canvas->lefts, "-999 -99 \"\" 0" },
              { "centres", canvas->centres, "-999 -99 \"\" 0" },
              { "rights", canvas->rights, "-999 -99 \"\" 0" } };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      g_string_append_printf (script, "$%s << EOD\n%s%s\nEOD\n", all[i].name, all[i].rows->str, all[i].outside);
      g_string_free (all[i].rows, TRUE);
    }
}

static void
add_box (Canvas *canvas, double x, double y, double width, double height, guint32 colour)
{
  g_string_append_printf (canvas->boxes, "%.2f %.2f %.2f %.2f %.2f %.2f %u\n", x, y, x, x + width, y, y + height,
                          colour);
}

static void
add_line (GString *rows, double x0, double y0, double x1, double y1)
{
  g_string_append_printf (rows, "%.2f %.2f\n%.2f %.2f\n\n", x0, y0, x1, y1);
}

static guint32
part_colour (guint part)
{
  static const guint32 idle[PS_N_IDLE] = {
    [PS_IDLE_WARM_UP] = 0xdddddd,  [PS_IDLE_FORWARD] = 0xc5dcec, [PS_IDLE_BACKWARD] = 0xbfe5d6,
    [PS_IDLE_TRANSFER] = 0xf0e68c, [PS_IDLE_CHANNEL] = 0xc9b458, [PS_IDLE_DRAIN] = 0xc4c4c4,
    [PS_IDLE_SYNC] = 0x9a9a9a,     [PS_IDLE_HOST] = 0xb79ad1,    [PS_IDLE_UNEXPLAINED] = 0xd9534f,
  };

  if (part >= PS_DIAGNOSIS_N_BUSY)
    return idle[part - PS_DIAGNOSIS_N_BUSY];
  return part < PS_N_OP_KINDS ? ps_plot_op_colour ((PsOpKind)part, 0, 1) : ps_plot_op_colour (PS_OP_BW, 1, 2);
}

static gboolean
any_device_has (const PsDiagnosis *diagnosis, const gint64 *parts_ns, guint part)
{
  for (guint d = 0; d < diagnosis->run->n_devices; d++)
    if (parts_ns[d * PS_DIAGNOSIS_N_PARTS + part] > 0)
      return TRUE;
  return FALSE;
}

static void
add_legend (Canvas *canvas, const PsPicture *picture, const PsDiagnosis *diagnosis, const gint64 *parts_ns)
{
  double x = 20, y = canvas->y - LEGEND / 2.0;

  for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++)
    {
      const char *name = ps_diagnosis_part_title (part);

      if (!any_device_has (diagnosis, parts_ns, part))
        continue;
      add_box (canvas, x, y - 5, 10, 10, part_colour (part));
      ps_gnuplot_append_label (canvas->lefts, x + 15, y, name, TEXT);
      x += 30 + ps_picture_letter (picture) * (double)g_utf8_strlen (name, -1);
    }
  canvas->y -= LEGEND;
}

static void
add_axis (Canvas *canvas, gint64 end_ns)
{
  PsPlotUnit unit = ps_plot_time_unit (end_ns);
  double step = ps_plot_tick_step ((double)end_ns / unit.size, 8);

  add_line (canvas->lines, LEFT, canvas->y, LEFT + (double)end_ns * canvas->scale, canvas->y);
  for (guint i = 0; i * step * unit.size <= (double)end_ns; i++)
    {
      double x = LEFT + i * step * unit.size * canvas->scale;
      g_autofree char *text = g_strdup_printf ("%g%s%s", i * step, i == 0 ? " " : "", i == 0 ? unit.name : "");

      add_line (canvas->lines, x, canvas->y, x, canvas->y - 4);
      ps_gnuplot_append_label (canvas->centres, x, canvas->y - 12, text, TEXT);
    }
  canvas->y -= PANEL;
}

static double
device_bar (const PsDiagnosis *diagnosis)
{
  return MIN (BAR, (double)MAX_BARS / diagnosis->run->n_devices);
}

static void
add_devices (Canvas *canvas, const PsDiagnosis *diagnosis, const gint64 *parts_ns)
{
  double bar = device_bar (diagnosis);

  for (guint d = 0; d < diagnosis->run->n_devices; d++)
    {
      double x = LEFT;
      g_autofree char *name = g_strdup_printf ("device %u", d);
      g_autofree char *bubble = g_strdup_printf (
          "bubble %.4f",
          1 - (double)diagnosis->metrics.device[d].busy_ns / (double)MAX (diagnosis->metrics.iteration_ns, 1));

      canvas->y -= bar;
      for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++)
        {
          double width = (double)parts_ns[d * PS_DIAGNOSIS_N_PARTS + part] * canvas->scale;

          if (width > 0)
            add_box (canvas, x, canvas->y + bar * 0.1, width, bar * 0.8, part_colour (part));
          x += width;
        }
      if (bar < 10 && d % 8 != 0)
        continue;
      ps_gnuplot_append_label (canvas->rights, LEFT - 8, canvas->y + bar / 2, name, TEXT);
      ps_gnuplot_append_label (canvas->lefts, canvas->width - RIGHT + 8, canvas->y + bar / 2, bubble, TEXT);
    }
}

static void
add_bar (Canvas *canvas, const char *name, const char *text, gint64 time_ns, guint32 colour)
{
  canvas->y -= BAR;
  add_box (canvas, LEFT, canvas->y + 2, (double)time_ns * canvas->scale, BAR - 4, colour);
  ps_gnuplot_append_label (canvas->rights, LEFT - 8, canvas->y + BAR / 2.0, name, TEXT);
  ps_gnuplot_append_label (canvas->lefts, canvas->width - RIGHT + 8, canvas->y + BAR / 2.0, text, TEXT);
}

static void
add_rival (Canvas *canvas, const PsRival *rival, gint64 own_ns)
{
  g_autofree char *time = ps_format_time (rival->iteration_ns);
  g_autofree char *name = ps_rival_label (rival);
  g_autofree char *text
      = g_strdup_printf ("%s, %+.1f %%", time, 100 * ((double)rival->iteration_ns / (double)own_ns - 1));

  add_bar (canvas, name, text, rival->iteration_ns, rival->is_run ? 0x555555 : rival->fits ? 0x0072b2 : 0x99c7e0);
}

/* The rows of the best schedules and the run's; *longest_ns is the longest of them. */
static GPtrArray *
choose_rivals (const PsDiagnosis *diagnosis, gint64 *longest_ns)
{
  GPtrArray *chosen = g_ptr_array_new ();

  *longest_ns = diagnosis->metrics.iteration_ns;
  for (guint i = 0; i < diagnosis->rivals->len; i++)
    {
      PsRival *rival = diagnosis->rivals->pdata[i];

      if (i >= N_RIVALS && !rival->is_run)
        continue;
      g_ptr_array_add (chosen, rival);
      *longest_ns = MAX (*longest_ns, rival->iteration_ns);
    }
  return chosen;
}

static void
add_rivals (Canvas *canvas, const PsDiagnosis *diagnosis, const GPtrArray *rivals, gint64 longest_ns)
{
  gint64 own_ns = diagnosis->prediction->metrics.iteration_ns;
  double x = LEFT + (double)own_ns * canvas->scale, top = canvas->y - PANEL;
  g_autofree char *time = ps_format_time (diagnosis->metrics.iteration_ns);

  ps_gnuplot_append_label (canvas->lefts, 20, canvas->y - PANEL / 2.0,
                           "iterations predicted under the same costs, and change from the run as predicted (dashed); "
                           "pale: more memory than the run",
                           TEXT);
  canvas->y -= PANEL;
  add_bar (canvas, ps_origin_name (diagnosis->run->origin), time, diagnosis->metrics.iteration_ns, 0x999999);
  for (guint i = 0; i < rivals->len; i++)
    add_rival (canvas, rivals->pdata[i], MAX (own_ns, 1));
  add_line (canvas->dashes, x, top, x, canvas->y);
  add_axis (canvas, longest_ns);
}

gboolean
ps_diagnose_plot (const PsPicture *picture, const PsDiagnosis *diagnosis, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree gint64 *parts_ns = ps_diagnosis_parts (diagnosis);
  g_autofree char *title = g_strdup_printf ("%s %s: where the iteration goes, and what other schedules would take",
                                            ps_origin_name (diagnosis->run->origin), diagnosis->run->schedule);
  gint64 longest_ns;
  g_autoptr (GPtrArray) rivals = choose_rivals (diagnosis, &longest_ns);
  Canvas canvas = { .width = WIDTH };
  guint height = (guint)(TITLE + LEGEND + device_bar (diagnosis) * diagnosis->run->n_devices + 3 * PANEL
                         + BAR * (rivals->len + 1) + 10);

  canvas_init (&canvas);
  canvas.y = height - TITLE;
  canvas.scale = (double)(WIDTH - LEFT - RIGHT) / (double)MAX (diagnosis->metrics.iteration_ns, 1);
  add_legend (&canvas, picture, diagnosis, parts_ns);
  add_devices (&canvas, diagnosis, parts_ns);
  add_axis (&canvas, diagnosis->metrics.iteration_ns);
  canvas.scale = (double)(WIDTH - LEFT - RIGHT) / (double)MAX (longest_ns, 1);
  add_rivals (&canvas, diagnosis, rivals, longest_ns);
  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_number (script, "width", WIDTH);
  ps_gnuplot_append_number (script, "height", height);
  canvas_end (&canvas, script);
  return ps_gnuplot_draw (picture, WIDTH, height, script->str, "diagnose.gp", error);
}
