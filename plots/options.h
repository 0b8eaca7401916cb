/* options.h - the command line of pipesim plot. */
#pragma once

#include "sweep-plot.h"

#include <pipesim/command.h>

typedef struct _PsPlotOptions PsPlotOptions;

/* One sort of picture. */
typedef struct
{
  const char *name;
  const char *files; /* the files that are drawn, for messages: "one or two timelines are" */
  guint max_files;
  gboolean (*draw) (const PsPlotOptions *options, GError **error);
} PsPlotKind;

struct _PsPlotOptions
{
  const PsPlotKind *kind;
  PsPicture picture;
  PsSweepPicture sweep;
  char *profile; /* NULL: the only one */
  char *size;
  gint64 limit_bytes; /* 0: none */
  char **arguments;   /* the sort of picture, then the files */
};

void ps_plot_options_clear (PsPlotOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsPlotOptions, ps_plot_options_clear)

/* Reads and checks the command line; kinds end with a NULL name. */
gboolean ps_plot_options_parse (PsPlotOptions *options, const PsPlotKind *kinds, int argc, char **argv, GError **error);
