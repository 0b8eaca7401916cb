/* launch-text.h - the files that start a training run, as lists of keys and values. Private to libpipesim. Nothing of a
 * file is executed, and no environment is looked at. */
#pragma once

#include <pipesim/model.h>

typedef enum {
  PS_LAUNCH_NONE,  /* another file */
  PS_LAUNCH_WORDS, /* arguments: a shell script, or the words alone */
  PS_LAUNCH_LOG,   /* the log of a run of Megatron-LM, which begins with its arguments */
  PS_LAUNCH_TOML,
  PS_LAUNCH_YAML,
  PS_LAUNCH_JSON, /* DeepSpeed's configuration */
} PsLaunchForm;

typedef struct {
  char *key;      /* with _ for -: "tensor_model_parallel_size", "parallelism.pipeline_parallel_degree"; "": words of a
                     command that are not known, which may be options */
  char *value;    /* "" where there is none */
  char *unknown;  /* why the value is not known: "NODES is not set here"; NULL: it is */
  gboolean word;  /* the value is one word that is not known at all; after a flag it may be options */
  gboolean unset; /* that word is a variable that is not set; after a flag it is no word */
  guint line;     /* 0: not known */
} PsLaunchKey;

/* Reads a file, or the script of "NAME=VALUE bash FILE ARGUMENT ...", whose first line then sets those, and names the
 * options of "sbatch OPTION ... FILE". Options among the arguments win over those of the launch. "torchrun ARGUMENT
 * ..." and the like are the text themselves. Errors: PS_ERROR_IO, PS_ERROR_USAGE. Free *text with g_free. */
gboolean ps_launch_open (const char *command, char **text, gsize *length, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* What form the text has. An .ini description and a config.json are NONE. */
PsLaunchForm ps_launch_form (const char *text);

/* The keys in the order of the text (PsLaunchKey, freed with the array). Of a script those of the command that has most
 * options of the table. Errors: PS_ERROR_INPUT "WHERE:LINE: ...". */
GPtrArray *ps_launch_keys (const char *where, const char *text, PsLaunchForm form,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* An array of PsLaunchKey, for readers of forms. */
GPtrArray *ps_launch_keys_new (void);

/* Adds a key; takes key. Values None and null say nothing. */
void ps_launch_add_key (GPtrArray *keys, char *key, const char *value, guint line);

/* Adds the options of a script's launch, and to documents its here-documents that are objects (char *). */
void ps_launch_read_shell (const char *text, GPtrArray *keys, GPtrArray *documents);

/* The key that a framework has of a fact: of Megatron-LM ("" as section), or in a section of torchtitan's
 * configuration. Free with g_free. */
char *ps_launch_key (const char *fact, const char *section);

/* What a key of a framework is to pipesim. */
typedef enum {
  PS_KEY_SETTING,  /* fact of the setting: an option, or a part of what it says, "recompute.method" */
  PS_KEY_MODEL,    /* a key of a model's description */
  PS_KEY_SHAPE,    /* a fact that keys of a model's description follow from */
  PS_KEY_MATTERS,  /* not modelled, though it may change what is predicted; fact says what it is */
  PS_KEY_HARMLESS, /* changes nothing that is predicted */
} PsKeyKind;

/* A row of the one table of keys. */
typedef struct {
  const char *keys; /* of Megatron-LM and Megatron-Bridge, torchtitan, DeepSpeed; blanks between them */
  PsKeyKind kind;
  const char *fact;
  const char *values; /* "theirs=ours ..."; "=ours" where a flag is given; NULL: the value as it is */
} PsKeyRow;

extern const PsKeyRow ps_key_rows[]; /* the last has no keys */

/* The row of a key as a form spells it; NULL: it has none. */
const PsKeyRow *ps_launch_key_row (PsLaunchForm form, const char *key);

/* The facts of a launch. */
typedef struct {
  const char *where;
  PsLaunchForm form;
  GPtrArray *keys;
  GHashTable *values;  /* fact -> value, both char * */
  GHashTable *sources; /* fact -> PsLaunchKey */
  GHashTable *unknown; /* fact -> PsLaunchKey whose value only an execution would tell */
  GPtrArray *matters;  /* PsLaunchKey that matter and are not modelled */
  GPtrArray *strange;  /* PsLaunchKey of no row */
  GPtrArray *words;    /* PsLaunchKey before words that are not known and may be options */
} PsLaunchFacts;

/* Reads the keys by the table. Errors: PS_ERROR_INPUT. */
PsLaunchFacts *ps_launch_facts (const char *where, const char *text, PsLaunchForm form, GError **error);
void ps_launch_facts_free (PsLaunchFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsLaunchFacts, ps_launch_facts_free)

/* "FILE:LINE", for messages. Free with g_free. */
char *ps_launch_place (const PsLaunchFacts *facts, const PsLaunchKey *key);

/* Of a key that matters and is not modelled: what it would change. */
const char *ps_launch_key_reason (const char *key);

/* Fails where the file says the fact and only an execution would tell its value. */
gboolean ps_launch_known (const PsLaunchFacts *facts, const char *fact, GError **error);

const char *ps_launch_fact (const PsLaunchFacts *facts, const char *fact); /* NULL: not said, or not known */
gboolean ps_launch_is (const PsLaunchFacts *facts, const char *fact);      /* said, and not "false" or "0" */

/* The number; otherwise where it is not said. Sets an error where it is no number of that range. */
gint64 ps_launch_count (const PsLaunchFacts *facts, const char *fact, gint64 otherwise, GError **error);

/* "fp32", "bf16", "mxfp8" ... (PsPrecision) */
const char *ps_launch_precision (const PsLaunchFacts *facts);

/* Whether the file says the model itself. */
gboolean ps_launch_has_model (const PsLaunchFacts *facts);

/* The .ini description of the model that Megatron-LM's arguments define. Errors: PS_ERROR_INPUT. Free with g_free. */
char *ps_launch_model_text (const char *where, const char *text, PsLaunchForm form, GError **error);
