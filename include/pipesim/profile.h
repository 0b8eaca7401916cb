/* profile.h - a measured profile as text, one line per measurement, to be kept beside sources, compared and carried to
 * another machine.
 *
 * The text is JSON, format "pipesim-profile/1": the members of PsProfile, then "sentinels" and "measurements", each an
 * array with one object per line. Members are those of the structures in costdb.h under their names in the database.
 * Left out are: unknown values; "choices" where there are none; "shares" and "share" of equal parts; "samples_ns"
 * unless asked for. Text -> database -> text gives the same bytes, and database -> text -> database the same rows.
 */
#ifndef PIPESIM_PROFILE_H
#define PIPESIM_PROFILE_H

#include <pipesim/costdb.h>

G_BEGIN_DECLS

typedef struct
{
  PsProfile *profile;
  GPtrArray *measurements; /* of PsMeasurement, by key */
  GPtrArray *sentinels;    /* of PsSentinel, in the order taken */
} PsProfileContents;

void ps_profile_contents_free (PsProfileContents *contents);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProfileContents, ps_profile_contents_free)

/* Errors: PS_ERROR_INPUT when the database has no profile of that name (NULL: the only one). */
PsProfileContents *ps_profile_contents_load (PsCostDb *db, const char *name, gboolean with_samples,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Free with g_free. */
char *ps_profile_contents_to_text (const PsProfileContents *contents);

/* Reads it back strictly: every key known, every figure in range, no measurement twice, the digest that of the model,
 * as many samples as are counted. Errors: PS_ERROR_INPUT "where:line: key: ...". */
PsProfileContents *ps_profile_contents_parse (const char *where, const char *text, gsize length,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
