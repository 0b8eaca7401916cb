/* circle.c - which devices add up numbers together. */
#include "transport/transports.h"

PsCircle
ps_circle_of (const PsTransportSetting *setting, guint at, PsCircleKind kind)
{
  const guint n_tensor = MAX (setting->n_tensor, 1), device = at % setting->n_devices;
  const guint pipeline = setting->pipeline + at / setting->n_devices;
  const guint replica = pipeline / n_tensor, part = pipeline % n_tensor;
  const guint twin = kind == PS_CIRCLE_WEIGHTS && setting->twin != NULL ? setting->twin[device] : device;
  const guint first = MIN (device, twin), pair = MAX (device, twin) - first;

  if (kind == PS_CIRCLE_TENSOR)
    return (PsCircle){
      .n = n_tensor, .own = part, .first = replica * n_tensor * setting->n_devices + device, .step = setting->n_devices
    };
  return (PsCircle){ .n = setting->n_replicas * (pair > 0 ? 2 : 1),
                     .own = pair > 0 ? 2 * replica + (device > first) : replica,
                     .first = part * setting->n_devices + first,
                     .pair = pair,
                     .step = n_tensor * setting->n_devices };
}

guint
ps_circle_device (const PsCircle *circle, guint place)
{
  if (circle->pair == 0)
    return circle->first + place * circle->step;
  return circle->first + place / 2 * circle->step + place % 2 * circle->pair;
}
