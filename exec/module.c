/* module.c - finds and loads modules, and the table of transport classes: a row without hooks stands for the class of
 * the same name in a module. */
#include "module.h"

#include "run/transports.h"

#include <string.h>

/* NULL with an error if there is no such file. */
static char *find_module (const char *where, const char *name, GError **error)
{
  const char *only = g_getenv (PS_MODULE_DIR_VARIABLE);
  const gboolean is_given = only != NULL && *only != '\0';
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *own = is_given ? g_strdup (only) : g_path_get_dirname (program != NULL ? program : "./");
  g_autofree char *installed = g_build_filename (own, "..", "lib", "pipesim", NULL);
  const char *const folders[] = { own, is_given ? own : installed };
  g_autofree char *file = g_strdup_printf ("pipesim-%s.so", name);

  for (guint i = 0; i < G_N_ELEMENTS (folders); i++) {
    g_autofree char *path = g_build_filename (folders[i], file, NULL);

    if (g_file_test (path, G_FILE_TEST_EXISTS))
      return g_steal_pointer (&path);
  }
  return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "%s: there is no %s in %s%s%s: it was not built or not installed",
                         where, file, own, is_given ? "" : " and ", is_given ? "" : installed);
}

/* NULL with an error if it can't be loaded. */
static GModule *load_module (const char *where, const char *name, GError **error)
{
  g_autofree char *path = find_module (where, name, error);
  gpointer stamp;

  if (path == NULL)
    return NULL;
  GModule *module = g_module_open (path, G_MODULE_BIND_LOCAL);
  if (module == NULL)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "%s: can't be loaded: %s", where, g_module_error ());
  g_module_make_resident (module);
  if (g_module_symbol (module, "ps_module_stamp", &stamp) && *(const guint64 *)stamp == PS_MODULE_STAMP)
    return module;
  return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "%s: %s was built with another pipesim; build both together",
                         where, path);
}

PsModuleFunction ps_module_function (const char *where, const char *name, const char *function, GError **error)
{
  static GMutex mutex;
  static GHashTable *modules; /* by name */
  PsModuleFunction result = NULL;
  gpointer symbol = NULL;

  g_mutex_lock (&mutex);
  if (modules == NULL)
    modules = g_hash_table_new (g_str_hash, g_str_equal);
  GModule *module = g_hash_table_lookup (modules, name);
  if (module == NULL)
    module = load_module (where, name, error);
  if (module != NULL)
    g_hash_table_insert (modules, (gpointer)g_intern_string (name), module);
  g_mutex_unlock (&mutex);
  if (module == NULL)
    return NULL;
  if (!g_module_symbol (module, function, &symbol) || symbol == NULL)
    ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s: %s is no module of this version: it has no %s", where,
               g_module_name (module), function);
  memcpy (&result, &symbol, sizeof result); /* ISO C has no cast from a data pointer */
  return result;
}

gconstpointer ps_module_class (const char *name, const char *kind, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s %s", name, kind);
  g_autofree char *symbol = g_strdup_printf ("ps_%s_%s_class", name, kind);
  gconstpointer (*function) (void) = (gconstpointer (*) (void))ps_module_function (where, name, symbol, error);

  return function != NULL ? function () : NULL;
}

static const PsTransportClass mpi_row = {
  .name = "mpi",
  .description = "MPI between processes that mpirun or srun has started, and inside one",
};
static const PsTransportClass nccl_row = {
  .name = "nccl",
  .description = "NCCL between NVIDIA GPUs, one device each, in one process or several",
  .occupies = TRUE,
};
static const PsTransportClass *const table[] = { &ps_threads_transport, &mpi_row, &nccl_row };

const PsTransportClass *const *ps_transport_table (guint *n)
{
  g_return_val_if_fail (n != NULL, NULL);

  *n = G_N_ELEMENTS (table);
  return table;
}

const PsTransportClass *ps_transport_find (const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL, NULL);

  const PsTransportClass *row = ps_table_find ("--transport", "transport", name, table, G_N_ELEMENTS (table), error);
  return row == NULL || row->open != NULL ? row : ps_module_class (name, "transport", error);
}
