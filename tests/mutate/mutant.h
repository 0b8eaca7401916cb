/* mutant.h - included before every source of a build with faults (mutate.py): which fault runs, and which are reached.
 */
#ifndef PIPESIM_MUTANT_H
#define PIPESIM_MUTANT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PS_MAX_MUTANTS 20000

/* TRUE: PS_MUTANT names this fault. The file that PS_MUTANT_REACHED names gets a line for each fault that a process
 * reaches; processes append to it. */
static inline int ps_mutant (int number)
{
  static const char *reached;
  static int chosen = -1;
  static char seen[PS_MAX_MUTANTS];

  if (chosen < 0) {
    const char *text = getenv ("PS_MUTANT");

    reached = getenv ("PS_MUTANT_REACHED");
    chosen = text != NULL ? atoi (text) : 0;
  }
  if (reached != NULL && number < PS_MAX_MUTANTS && !seen[number]) {
    char line[16];
    int length = snprintf (line, sizeof line, "%d\n", number),
        file = open (reached, O_WRONLY | O_APPEND | O_CREAT, 0644);

    seen[number] = 1;
    if (file >= 0) {
      (void)!write (file, line, (size_t)length);
      close (file);
    }
  }
  return chosen == number;
}

#endif
