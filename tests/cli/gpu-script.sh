#!/bin/sh
# gpu-script.sh - tests/gpu.sh without a GPU: it refuses wrong builds, ends well without programs, starts no step late, and goes on
# after an earlier call.
set -u
script=$(cd "$(dirname "$0")/.." && pwd)/gpu.sh
. "$(dirname "$0")/lib.sh"
export OUT="$work/results"

refuse 2 "--seconds soon: a number of seconds" "$script" --seconds soon
refuse 2 "--device gpu: cuda, or cpu for a rehearsal" "$script" --device gpu
refuse 2 "--after none: has no report.md" "$script" --after none

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
steps "without programs all is skipped" "SKIP module loads: no programs in nowhere" "SKIP NCCL, two devices: no programs"
if [ -s "$OUT/details.tar" ]; then result "details are packed"; else result "details are packed" "$(ls "$OUT")"; fi
"$script" --device cpu --seconds 0 >"$work/said" 2>&1
steps "no step starts late" "SKIP module loads: no time left" "SKIP racecheck: no time left"

model_ini layers=16 sequence=16 vocabulary=64 >tiny.ini
pipesim-calib run --db costs.db --profile other --model tiny.ini --device cpu -p 4 -v 1 --max-samples 2 --time-limit 1ms >/dev/null 2>&1
mkdir earlier
pipesim-calib export --db costs.db --profile other -o earlier/profile-stages.json
echo '| PASS | first run, p = 4 | 1f1b | 1 s |' >earlier/report.md
"$script" --device cpu --after earlier --steps 'calibration, p = 4|predictions|first run' >"$work/said" 2>&1
steps "goes on after an earlier call; schedules run whose costs its profile lacks" \
  "PASS profile of an earlier call: earlier/profile-stages.json" "SKIP calibration, p = 4: costs are those of earlier/" \
  "PASS predictions, p = 4" "SKIP first run, p = 4: passed in earlier" "PASS first run of zb-v: zb-v on 4 parts: .*bit-equal"
finish
