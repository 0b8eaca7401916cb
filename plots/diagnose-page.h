/* diagnose-page.h - a diagnosis as one HTML page that fetches nothing. */
#ifndef PS_DIAGNOSE_PAGE_H
#define PS_DIAGNOSE_PAGE_H

#include "diagnose-report.h"

/* title NULL: the page's own. Free with g_free. */
char *ps_diagnose_page (const PsDiagnosis *diagnosis, const char *title);

#endif
