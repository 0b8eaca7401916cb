#!/bin/sh
# gpu-script.sh - tests/gpu.sh without a GPU: it refuses wrong builds, ends well without programs, and takes the profile of an
# earlier call in place of a calibration.
set -u
script=$(cd "$(dirname "$0")/.." && pwd)/gpu.sh
. "$(dirname "$0")/lib.sh"
export OUT="$work/results"

refuse 2 "--call 4: 1, 2 or 3" "$script" --call 4
refuse 2 "--device gpu: cuda, or cpu for a rehearsal" "$script" --device gpu
refuse 2 "--profile none.json: no such file" "$script" --call 2 --profile none.json

# options ARCHITECTURES: makes a build folder that is set up for them, described as Meson does.
options ()
{
  mkdir -p build/meson-info
  printf '[{"name": "gpu_architectures", "value": [%s], "description": "sm_90 instead of sm_90a"}, {"name": "a", "value": ["sm_90a"]}]' \
    "$1" >build/meson-info/intro-buildoptions.json
}
options '"sm_80", "sm_90", "sm_100"'
refuse 1 "build has no kernels of Hopper's own" "$script" --pack bundle build
options '"sm_80", "sm_90a", "sm_100"'
refuse 1 "build/pipesim-cuda.so is not there" "$script" --pack bundle build

# steps NAME LINE...: the script's output has lines that begin with LINE, and no failed step.
steps ()
{
  name=$1
  shift
  missing=
  for line; do grep -q "^$line" "$work/said" || missing="no line '$line' in:"; done
  ! grep -q '^FAIL' "$work/said" || missing="a failed step in:"
  [ -z "$missing" ] || set -- "$missing" "$(cat "$work/said")"
  [ -n "$missing" ] || set --
  result "$name" "$@"
}
"$script" --bundle nowhere >"$work/said" 2>&1
steps "without programs all is skipped" "SKIP module loads: no programs in nowhere" "SKIP NCCL, two devices: no programs" "PASS files: 3 files"

model_ini layers=16 sequence=16 vocabulary=64 >tiny.ini
pipesim-calib run --db costs.db --profile other --model tiny.ini --device cpu -p 4 -v 1 --max-samples 2 --time-limit 1ms >/dev/null 2>&1
pipesim-calib export --db costs.db --profile other -o known.json
"$script" --device cpu --profile known.json --steps '^profile|calibration, p = 4|predictions|zb-v' >"$work/said" 2>&1
steps "a profile stands for a calibration; schedules run whose costs it lacks" "PASS profile of an earlier call: known.json" \
  "SKIP calibration, p = 4: costs are those of known.json" "PASS predictions, p = 4" \
  "PASS first run of zb-v: zb-v on 4 parts: .*bit-equal"
finish
