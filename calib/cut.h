/* cut.h - a model cut into the stages of a pipeline, and which device answers for measuring which stage shape. */
#ifndef PIPESIM_CALIB_CUT_H
#define PIPESIM_CALIB_CUT_H

#include <pipesim/model.h>

G_BEGIN_DECLS

typedef struct
{
  guint n_devices;
  guint n_chunks;
  guint n_stages;       /* n_devices * n_chunks; stage s sits on device s mod n_devices */
  PsStageShape *shapes; /* [n_stages] */
  char **keys;          /* [n_stages] ps_stage_shape_key */
} PsCut;

/* Errors: PS_ERROR_USAGE when the model has too few layers. Free with ps_cut_free. */
PsCut *ps_cut_new (const PsModel *model, guint n_devices, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cut_free (PsCut *cut);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCut, ps_cut_free)

/* Every shape's times are kept once, so devices that hold stages of one shape must have equal shares[n_devices] of an
 * accelerator (NULL: all have). Errors: PS_ERROR_USAGE naming two that have not. */
gboolean ps_cut_check_shares (const PsCut *cut, const guint *shares, GError **error);

/* The lowest device that holds a stage of that shape: the one whose times are kept. */
guint ps_cut_owner (const PsCut *cut, const char *key);

G_END_DECLS

#endif
