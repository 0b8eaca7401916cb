/* search-all.h - all choices of a search, one after the other, and then the best of them jointly. */
#pragma once

#include "setting-search.h"

#define PS_SEARCH_MOST_COPIES 2

/* What was found with a choice. */
typedef struct {
  PsSearchFound found; /* no result: nothing yet */
  PsSearchChoice choice;
  PsSetting setting; /* of the choice; of what it points to, only what each stage does is its own */
} PsSearchBest;

typedef struct {
  PsSetting *setting;
  const GArray *choices;                                  /* PsSearchChoice */
  PsSearchLimits limits;                                  /* for all of them */
  gboolean joint;                                         /* half of the time is for ps_search_joint */
  gboolean any_chunks;                                    /* as there */
  void (*note) (const PsSearchBest *made, gpointer data); /* called with each result */
  gpointer data;
  GString *skipped;                         /* choices that cannot be, with the reasons */
  PsSearchBest best[PS_SEARCH_MOST_COPIES]; /* of the lowest figure, by weight copies less 1 */
} PsSearchAll;

/* Tries all choices; time that one leaves goes to those after it. An open layout is the best or the even one. joint:
 * goes on from the best of one copy, whose stages may change places, and from that of two. Errors: the first choice's,
 * where none can be. Clear *all in any case. */
gboolean ps_search_all (PsSearchAll *all, GError **error);
void ps_search_all_clear (PsSearchAll *all);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSearchAll, ps_search_all_clear)

/* The better of the best ones; without a result where there is none. */
const PsSearchBest *ps_search_all_best (const PsSearchAll *all);
