/* script.h - the instruction stream of one device with everything looked up: where each tensor lies between the
 * instruction that makes it and the one that uses it, and how long each message takes at least. */
#pragma once

#include <pipesim/costs.h>
#include <pipesim/program.h>

#define PS_NO_SLOT G_MAXUINT

typedef struct
{
  PsInstruction instruction;
  guint take;      /* slot of the tensor that this uses up: a compute's input, a send's message; or PS_NO_SLOT */
  guint put;       /* slot for the tensor that this makes: a compute's output, a wait's message; or PS_NO_SLOT */
  gint64 delay_ns; /* sends: see transport.h */
  guint index;     /* among the device's computes, posts or waits of a step */
  guint8 ahead;    /* 1: of the step after the one whose round it is in, see PsRound */
} PsAction;

typedef struct
{
  guint n_actions;
  PsAction *actions;
  guint n_slots;
  guint n_ops;     /* computes among the actions */
  guint n_posts;   /* sends and receives among them */
  guint n_waits;   /* waits among them */
  guint n_updates; /* O that follow when all devices have met; 0: they are among the computes */
  guint end;       /* the last compute among the actions that is not ahead */
  guint n_stages;  /* stages that the device holds, once per weight copy */
  guint *stages;   /* ascending, so that all devices with the same stages add up their gradients in one order */
} PsScript;

/* Scripts of all devices, of one round (PsRound), in an array of the program's number of devices. costs give the delays
 * of messages; NULL: none.
 */
PsScript *ps_scripts_new (const PsProgram *program, const PsCosts *costs);
void ps_scripts_free (PsScript *scripts, guint n_devices);
