/* layout-string.h - the stages of a model as Megatron-LM writes them: "Et*3|(tt|)*29,m|L"
 * (--pipeline-model-parallel-layout; megatron/core/transformer/pipeline_parallel_layer_layout.py, core v0.16).
 *
 *   E t m L   units, in this order: embedding, transformer layer, module of multi-token prediction, loss (head)
 *   |         ends a stage; a stage may be empty
 *   X*n       the character X n times: t*3 is ttt
 *   (...)*n   the group n times: (tt|)*2 is tt|tt|; groups hold no groups
 *   ,         means nothing
 *
 * Stages stand in model order. Megatron gives stage s to rank s mod p as its chunk s / p, which is placement loop.
 */
#ifndef PIPESIM_LAYOUT_STRING_H
#define PIPESIM_LAYOUT_STRING_H

#include <pipesim/model.h>

G_BEGIN_DECLS

/* Reads a string that holds one E and at least one t and one L, as [*n_stages]. In each shape embedding and head are
 * the numbers of E and L: more than one L is a loss that is itself split over stages. Errors: PS_ERROR_USAGE "WHERE:
 * character 7: ...". Free with g_free. */
PsStageShape *ps_layout_string_parse (const char *where, const char *text, guint *n_stages,
                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The string that reads as these shapes, with repeats folded where that makes it shorter. Free with g_free. */
char *ps_layout_string_write (const PsStageShape *shapes, guint n_stages);

G_END_DECLS

#endif
