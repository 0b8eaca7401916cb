/* Tests of choices that devices agree on: every member hears of all choices, the first member's last, whatever their
 * lengths. */
#include "run/crew.h"

#include <string.h>

#define N_MEMBERS 3

/* A device that keeps what it is to adopt. */
typedef struct {
  PsDevice base;
  const char *own;
  GString *heard; /* "third,second,first," */
  gboolean refuses;
} Listener;

static GBytes *listener_choices (PsDevice *device)
{
  const char *own = ((Listener *)device)->own;

  return g_bytes_new (own, strlen (own));
}

static gboolean listener_adopt (PsDevice *device, GBytes *choices, GError **error)
{
  Listener *listener = (Listener *)device;
  gsize n;
  const char *text = g_bytes_get_data (choices, &n);

  if (listener->refuses) {
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "no");
    return FALSE;
  }
  g_string_append_len (listener->heard, text, (gssize)n);
  g_string_append_c (listener->heard, ',');
  return TRUE;
}

static const PsDeviceClass listening
    = { .name = "listener", .choices = listener_choices, .adopt_choices = listener_adopt };
static const PsDeviceClass silent = { .name = "silent" };

typedef struct {
  PsCrew *crew;
  Listener *listener;
  guint member;
  GError *error;
} Member;

static gpointer member_main (gpointer data)
{
  Member *member = data;

  ps_choices_agree (member->crew, member->member, N_MEMBERS, &member->listener->base, &member->error);
  return NULL;
}

static void run_members (Listener *listeners, GError **errors)
{
  g_autoptr (PsCrew) crew = ps_crew_new (N_MEMBERS, NULL, 0);
  Member members[N_MEMBERS];
  GThread *threads[N_MEMBERS];

  for (guint i = 0; i < N_MEMBERS; i++) {
    members[i] = (Member){ crew, &listeners[i], i, NULL };
    threads[i] = g_thread_new ("member", member_main, &members[i]);
  }
  for (guint i = 0; i < N_MEMBERS; i++) {
    g_thread_join (threads[i]);
    errors[i] = members[i].error;
  }
}

static void check (const char *const *own, const char *expected)
{
  Listener listeners[N_MEMBERS];
  GError *errors[N_MEMBERS];

  for (guint i = 0; i < N_MEMBERS; i++)
    listeners[i] = (Listener){ { &listening }, own[i], g_string_new (NULL), FALSE };
  run_members (listeners, errors);
  for (guint i = 0; i < N_MEMBERS; i++) {
    g_assert_no_error (errors[i]);
    g_assert_cmpstr (listeners[i].heard->str, ==, expected);
    g_string_free (listeners[i].heard, TRUE);
  }
}

static void test_agree (void)
{
  check ((const char *const[]){ "first", "second one", "3" }, "3,second one,first,");
  check ((const char *const[]){ "", "", "all there is" }, "all there is,,,");
  check ((const char *const[]){ "", "", "" }, ",,,");
}

static void test_refused (void)
{
  Listener listeners[N_MEMBERS];
  GError *errors[N_MEMBERS];

  for (guint i = 0; i < N_MEMBERS; i++)
    listeners[i] = (Listener){ { &listening }, "x", g_string_new (NULL), i == 1 };
  run_members (listeners, errors);
  for (guint i = 0; i < N_MEMBERS; i++) {
    g_assert_true ((errors[i] != NULL) == (i == 1));
    g_clear_error (&errors[i]);
    g_string_free (listeners[i].heard, TRUE);
  }
}

/* A class that decides nothing meets nobody: this would hang else. */
static void test_nothing_to_agree_on (void)
{
  g_autoptr (PsCrew) crew = ps_crew_new (2, NULL, 0);
  PsDevice device = { &silent };

  g_assert_true (ps_choices_agree (crew, 0, 2, &device, NULL));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/choices/agree", test_agree);
  g_test_add_func ("/choices/refused", test_refused);
  g_test_add_func ("/choices/nothing-to-agree-on", test_nothing_to_agree_on);
  return g_test_run ();
}
