/* help-topics.h - what pipesim help says about one topic. */
#pragma once

#include <pipesim/base.h>

/* Appends "  NAME  description" of every topic. */
void ps_help_topics_list (GString *text);

/* The page of a topic. NULL: PS_ERROR_USAGE naming those that there are. Free with g_free. */
char *ps_help_topic (const char *name, GError **error) G_GNUC_WARN_UNUSED_RESULT;
