/* fuzz-profile.c - profiles as text: what is read can be written, read again and stored. */
#include "fuzz.h"

#include <pipesim/costdb.h>

#include <string.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  g_autoptr (PsProfileContents) contents = ps_profile_contents_parse ("fuzz", text, strlen (text), &error);
  g_autofree char *again = NULL, *twice = NULL;

  fuzz_check_error (contents != NULL, &error);
  if (contents == NULL)
    return 0;
  again = ps_profile_contents_to_text (contents);
  g_autoptr (PsProfileContents) back = ps_profile_contents_parse ("again", again, strlen (again), &error);
  g_assert_no_error (error);
  twice = ps_profile_contents_to_text (back);
  g_assert_cmpstr (again, ==, twice);
  return 0;
}
