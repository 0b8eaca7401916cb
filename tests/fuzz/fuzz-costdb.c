/* fuzz-costdb.c - cost databases, as damaged as they come. */
#include "fuzz.h"

#include <pipesim/costdb.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCostDb) db = ps_costdb_open (fuzz_file (data, size), PS_COSTDB_READ, &error);

  fuzz_check_error (db != NULL, &error);
  if (db == NULL)
    return 0;
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, &error);
  fuzz_check_error (profiles != NULL, &error);
  g_autoptr (PsCosts) costs = ps_costdb_costs (db, NULL, NULL, 2, 1, &error);
  fuzz_check_error (costs != NULL, &error);
  return 0;
}
