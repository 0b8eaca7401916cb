/* diagnose-page.h - a diagnosis as one HTML page that fetches nothing. */
#pragma once

#include "diagnose-report.h"

/* title NULL: the page's own. Free with g_free. */
char *ps_diagnose_page (const PsDiagnosis *diagnosis, const char *title);
