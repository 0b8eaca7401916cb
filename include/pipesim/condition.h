/* condition.h - the state of hardware while it is measured: clocks, temperature, power, and the reasons that slow it
 * down. */
#ifndef PIPESIM_CONDITION_H
#define PIPESIM_CONDITION_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Why hardware runs slower than it could. */
typedef enum
{
  PS_THROTTLE_KNOWN = 1 << 0, /* the state is known; without another bit nothing slows it down */
  PS_THROTTLE_POWER = 1 << 1, /* "power": the power limit */
  PS_THROTTLE_HEAT = 1 << 2,  /* "heat": too hot */
  PS_THROTTLE_HARDWARE
  = 1 << 3,                     /* "hardware": the board's own slow-down, for heat, power supply or an outside signal */
  PS_THROTTLE_SETTING = 1 << 4, /* "setting": clocks set by hand, or boost shared with other boards */
} PsThrottle;

/* The reading of one moment; 0: not known. */
typedef struct
{
  gint64 clock_mhz;        /* of the processor's cores or multiprocessors */
  gint64 memory_clock_mhz; /* of the device's memory */
  gint64 temperature_c;    /* degrees Celsius */
  gint64 power_mw;         /* drawn by the whole device */
  guint throttle;          /* PsThrottle bits; 0: not known */
} PsCondition;

/* "power heat" in the order of PsThrottle, "" for nothing, NULL for not known. Free with g_free. */
char *ps_throttle_to_text (guint throttle);

/* Reads that back (NULL: not known). FALSE: text holds another word, or one twice. */
gboolean ps_throttle_parse (const char *text, guint *throttle);

/* TRUE where either reading has a reason; *known says whether both could tell. */
gboolean ps_condition_throttled (const PsCondition *before, const PsCondition *after, gboolean *known);

G_END_DECLS

#endif
