/* corpus.h - the texts that a model can be trained on. */
#pragma once

#include <pipesim/model.h>

/* The text that ships: sums of two numbers below a hundred in words, one to a line, the same in every run. */
#define PS_CORPUS_SUMS "sums"

/* The bytes of a text: PS_CORPUS_SUMS or a file. Each byte is a token, so the model needs a vocabulary of 256, and the
 * text has to be longer than a sequence. Errors: PS_ERROR_USAGE "option: ...", PS_ERROR_IO. Free with
 * g_bytes_unref. */
GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model,
                        GError **error) G_GNUC_WARN_UNUSED_RESULT;
