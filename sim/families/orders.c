/* orders.c - schedules that families try whatever the costs are, kept from one generation to the next. */
#include "orders.h"

#define MAX_BYTES ((gsize)16 << 20) /* of all schedules; with more, all are made anew */

/* The setting that a schedule follows from. */
typedef struct
{
  PsOrderMaker make;
  guint n_devices;
  guint n_microbatches;
} Key;

struct _PsFamilyOrders
{
  GHashTable *schedules; /* Key -> PsSchedule */
  gsize bytes;
};

static guint
hash_key (gconstpointer data)
{
  const Key *key = data;

  return (guint)(gsize)key->make ^ (key->n_devices * 0x9e3779b9U + key->n_microbatches) * 0x85ebca6bU;
}

static gboolean
same_key (gconstpointer a, gconstpointer b)
{
  const Key *x = a, *y = b;

  return x->make == y->make && x->n_devices == y->n_devices && x->n_microbatches == y->n_microbatches;
}

PsFamilyOrders *
ps_family_orders_new (void)
{
  PsFamilyOrders *orders = g_new0 (PsFamilyOrders, 1);

  orders->schedules = g_hash_table_new_full (hash_key, same_key, g_free, (GDestroyNotify)ps_schedule_free);
  return orders;
}

void
ps_family_orders_free (PsFamilyOrders *orders)
{
  if (orders == NULL)
    return;
  g_hash_table_unref (orders->schedules);
  g_free (orders);
}

const PsSchedule *
ps_family_order (PsFamilyOrders *orders, const PsFamilySetting *setting, PsOrderMaker make)
{
  const Key key = { make, setting->n_devices, setting->n_microbatches };
  PsSchedule *schedule = g_hash_table_lookup (orders->schedules, &key);

  if (schedule != NULL)
    return schedule;
  if (orders->bytes > MAX_BYTES)
    {
      g_hash_table_remove_all (orders->schedules);
      orders->bytes = 0;
    }
  schedule = make (setting, NULL);
  orders->bytes += ps_schedule_n_ops (schedule) * sizeof *schedule->ops;
  g_hash_table_insert (orders->schedules, g_memdup2 (&key, sizeof key), schedule);
  return schedule;
}
