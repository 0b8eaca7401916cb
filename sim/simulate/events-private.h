/* events-private.h - what planning asks of the events engine. Private to sim/simulate/events*.c. */
#pragma once

#include <pipesim/simulate.h>

/* With ready_order: of the messages that may begin, the one whose consumer has the largest urgency [n_steps] goes first
 * (NULL: the first to exist). exclusive: a device moves one message or runs an op, never both. */
void ps_events_rank_messages (PsEvents *events, const gint64 *urgency_ns, gboolean exclusive);
