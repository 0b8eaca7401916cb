/* orders.h - schedules that families try whatever the costs are. Private to sim/families. */
#pragma once

#include "families-private.h"

/* As PsFamily.generate, for a schedule that follows from p and m alone. */
typedef PsSchedule *(*PsOrderMaker) (const PsFamilySetting *setting, GError **error);

/* The schedule, made if it is not there; valid until the next call. */
const PsSchedule *ps_family_order (PsFamilyOrders *orders, const PsFamilySetting *setting, PsOrderMaker make);
