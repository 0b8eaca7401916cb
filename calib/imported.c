/* imported.c - a profile of the samples that runs show. */
#include "imported.h"

#include "clock.h"
#include "statistics.h"

typedef struct {
  const PsObserved *observed;
  const PsModel *model;
  PsProfileContents *contents;
} Import;

static PsProfile *new_profile (const char *name, const PsObserved *observed, const PsModel *model)
{
  PsProfile *profile = g_new0 (PsProfile, 1);

  *profile = (PsProfile){ .name = g_strdup (name),
                          .model_name = g_strdup (model != NULL ? model->name : ""),
                          .model_digest = model != NULL ? ps_model_digest (model) : g_strdup (""),
                          .model_text = model != NULL ? ps_model_to_text (model) : g_strdup (""),
                          .device = g_strdup ("imported"),
                          .transport = g_strdup ("imported"),
                          .shares = g_strdup (""),
                          .host = g_strdup (""),
                          .processor = g_strdup (""),
                          .kernel = g_strdup (""),
                          .libraries = g_strdup (""),
                          .version = g_strdup (PS_VERSION),
                          .created = ps_moment_now (),
                          .choices = g_strdup (""),
                          .places = g_strdup (""),
                          .source = ps_observed_describe (observed) };
  return profile;
}

/* The measurement of that key, or a new one. */
static PsMeasurement *find_measurement (const Import *import, PsSubject subject, const char *shape, PsOpKind kind,
                                        gint64 bytes)
{
  GPtrArray *all = import->contents->measurements;
  PsMeasurement *m;

  for (guint i = 0; i < all->len; i++) {
    m = all->pdata[i];
    if (m->subject == subject && m->kind == kind && g_str_equal (m->shape, shape))
      return m;
  }
  m = g_new0 (PsMeasurement, 1);
  *m = (PsMeasurement){ .subject = subject,
                        .kind = kind,
                        .shape = g_strdup (shape),
                        .bytes = bytes,
                        .devices = import->observed->n_devices,
                        .sharing = 1,
                        .stop = g_strdup ("imported"),
                        .taken = g_strdup (import->contents->profile->created) };
  g_ptr_array_add (all, m);
  return m;
}

static void add_samples (PsMeasurement *m, const GArray *samples, gboolean estimated)
{
  m->samples_ns = g_renew (gint64, m->samples_ns, m->n_samples + samples->len);
  for (guint i = 0; i < samples->len; i++)
    m->samples_ns[m->n_samples++] = g_array_index (samples, gint64, i);
  ps_statistics_compute (m->samples_ns, m->n_samples, &m->time);
  if (estimated) {
    g_free (m->stop);
    m->stop = g_strdup ("estimated");
  }
}

static void add_stage (const Import *import, const char *shape, guint stage)
{
  const PsObserved *observed = import->observed;
  g_autofree char *warm_shape = g_strconcat (shape, PS_WARM_SUFFIX, NULL);

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
    guint cell = kind * observed->n_stages + stage;
    gboolean tells_warm = ps_observed_tells_warm (observed, cell);
    const GArray *samples = tells_warm ? observed->cold[cell] : observed->op[cell];

    if (samples->len > 0)
      add_samples (find_measurement (import, PS_SUBJECT_OP, shape, (PsOpKind)kind, 0), samples,
                   (observed->estimated[stage] & 1U << kind) != 0);
    if (tells_warm)
      add_samples (find_measurement (import, PS_SUBJECT_OP, warm_shape, (PsOpKind)kind, 0), observed->warm[cell],
                   FALSE);
  }
  if (observed->pair[stage]->len > 0)
    add_samples (find_measurement (import, PS_SUBJECT_PAIR, shape, PS_OP_F, 0), observed->pair[stage], FALSE);
}

/* With a model all boundaries have messages of one size. */
static void add_transfers (const Import *import)
{
  const PsObserved *observed = import->observed;
  guint n = observed->n_stages;

  for (guint back = 0; back < 2; back++)
    for (guint stage = 0; stage < n; stage++) {
      const GArray *samples = observed->transfer[1 + back * n + stage];
      g_autofree char *shape = import->model != NULL ? g_strdup ("") : ps_stage_key (stage, n, back == 1);
      gint64 bytes = import->model != NULL ? ps_model_boundary_bytes (import->model) : 0;

      if (samples->len > 0)
        add_samples (find_measurement (import, PS_SUBJECT_TRANSFER, shape, PS_OP_F, bytes), samples, FALSE);
    }
}

static void add_host (const Import *import, const char *part, const GArray *samples)
{
  if (samples->len > 0)
    add_samples (find_measurement (import, PS_SUBJECT_HOST, part, PS_OP_F, 0), samples, FALSE);
}

PsProfileContents *ps_profile_of_runs (const char *name, const PsObserved *observed, const PsModel *model,
                                       GError **error)
{
  guint n = observed->n_stages;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n);
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);
  g_autoptr (GArray) send = ps_observed_posts (observed, PS_INSTRUCTION_SEND);
  g_autoptr (GArray) receive = ps_observed_posts (observed, PS_INSTRUCTION_RECEIVE);
  Import import = { observed, model, contents };

  contents->measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  contents->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  contents->profile = new_profile (name, observed, model);
  if (model != NULL && !ps_model_split (model, n, shapes, error))
    return NULL;
  for (guint stage = 0; stage < n; stage++) {
    g_autofree char *shape = model != NULL ? ps_stage_shape_key (&shapes[stage]) : ps_stage_key (stage, n, FALSE);

    add_stage (&import, shape, stage);
  }
  add_transfers (&import);
  add_host (&import, "op", observed->host);
  add_host (&import, "send", send);
  add_host (&import, "receive", receive);
  return g_steal_pointer (&contents);
}
