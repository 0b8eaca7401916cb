/* search-all.h - all choices of a search, one after the other, and then the best of them jointly. */
#pragma once

#include "setting-search.h"

#define SEARCH_MOST_COPIES 2

/* What was found with a choice. */
typedef struct
{
  SearchFound found; /* no result: nothing yet */
  SearchChoice choice;
  PsSetting setting; /* of the choice; of what it points to, only what each stage does is its own */
} SearchBest;

typedef struct
{
  PsSetting *setting;
  const GArray *choices;                                /* SearchChoice */
  SearchLimits limits;                                  /* for all of them */
  gboolean joint;                                       /* half of the time is for search_joint */
  gboolean any_chunks;                                  /* as there */
  void (*note) (const SearchBest *made, gpointer data); /* called with each result */
  gpointer data;
  GString *skipped;                    /* choices that cannot be, with the reasons */
  SearchBest best[SEARCH_MOST_COPIES]; /* of the lowest figure, by weight copies less 1 */
} SearchAll;

/* Tries all choices; time that one leaves goes to those after it. An open layout is the best or the even one. joint:
 * goes on from the best of one copy, whose stages may change places, and from that of two. Errors: the first choice's,
 * where none can be. Clear *all in any case. */
gboolean search_all (SearchAll *all, GError **error);
void search_all_clear (SearchAll *all);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SearchAll, search_all_clear)

/* The better of the best ones; without a result where there is none. */
const SearchBest *search_all_best (const SearchAll *all);
