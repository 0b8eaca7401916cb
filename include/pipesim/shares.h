/* shares.h - the proportion in which devices split accelerators: a list of whole numbers, one per device. Equal parts
 * have no list: text "" and NULL. */
#ifndef PIPESIM_SHARES_H
#define PIPESIM_SHARES_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Every figure that is made of a share stays within 64 bits. */
#define PS_MAX_SHARE 1000000

/* Reads "40,30,20,10" in lowest terms: 4, 3, 2, 1. *n becomes their number. where begins the message of PS_ERROR_USAGE,
 * which names the entry that is no share from 1 to PS_MAX_SHARE. Free with g_free. */
guint *ps_shares_parse (const char *where, const char *text, guint *n, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* "4,3,2,1" of 40, 30, 20, 10; "" of equal shares[n] and of NULL. Free with g_free. */
char *ps_shares_to_text (const guint *shares, guint n);

/* The text of ps_shares_to_text for people: itself, or "equal". */
const char *ps_shares_describe (const char *text);

G_END_DECLS

#endif
