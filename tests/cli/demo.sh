#!/bin/sh
# demo.sh - what `./run demo` prints of a machine that was not quiet. Measures a small model in place of tiny-gpt, and builds nothing.
set -u
. "$(dirname "$0")/lib.sh"
if ! command -v gnuplot >/dev/null || ! command -v sqlite3 >/dev/null || ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP no gnuplot, sqlite3 or python3"
  exit 0
fi

real=$(command -v pipesim)
cp "${G_TEST_SRCDIR:?}/../run" run
mkdir build stubs
printf '#!/bin/sh\necho install ok installed\n' >stubs/dpkg-query
printf '#!/bin/sh\n' >stubs/ninja
cp stubs/ninja stubs/meson
model_ini layers=8 heads=4 vocabulary=64 microbatch_size=2 >small.ini
# So few samples say nothing of the sentinel; the profile gets one that moved while the F were measured. The order of the
# schedules is made up, too.
cat >build/pipesim <<TEXT
#!/bin/sh
case "\$*" in
  calib\ run*) echo "\$*" >>measured.txt ;;
  calib\ check*) exec $real "\$@" --budget 1s ;;
  predict*--json) cat rows.json; exit ;;
  *) exec $real "\$@" ;;
esac
while [ \$# -gt 1 ]; do [ "\$1" = -p ] && p=\$2; shift; done
$real calib run --db other.db --profile this-machine --model small.ini -p \$p --max-samples 2 --time-limit 500ms
$real calib export --db other.db --profile this-machine | awk -f "$G_TEST_SRCDIR/cli/restless.awk" >moved.json
$real calib import --db demo/costs.db moved.json
TEXT
chmod +x stubs/* build/pipesim
PATH=$PWD/stubs:$PATH

# demo NAME ROWS: with these rows of a prediction.
demo ()
{
  echo "$2" >rows.json
  ./run demo >out.txt 2>err.txt
  code=$?
  if [ $code -eq 0 ]; then result "$1"; else result "$1" "exit code $code" "$(tail -3 err.txt)"; fi
}

# prints N NAME PATTERN: on so many lines of what was printed.
prints ()
{
  n=$(cat out.txt err.txt | grep -cE "$3")
  if [ "$n" -eq "$1" ]; then result "$2"; else result "$2" "$n lines of $3 in:" "$(cat out.txt err.txt)"; fi
}

demo "demo" '{"results": [{"schedule": "zb-v-auto"}], "alike": "zb-v-auto, pipedream, 1f1b"}'
prints 1 "times have headings" '^stage +F ms +B ms +W ms +BW ms +O ms +samples, at least *$'
prints 0 "no line for each measurement" ' of [0-9]+: '
prints 1 "what the sentinel did" '^sentinel F of layers=1: 4 readings, moved by 50\.0 %'
prints 1 "the fit of transfers" '^fit of transfers, .*'
if sed -n '/^fit of transfers/,/^all/p' out.txt | tr '\n' ' ' | grep -q 'of the medians all'; then result "to its end"; else result "to its end" "$(cat out.txt)"; fi
prints 0 "no refusals" '^pipesim exec:'
prints 1 "the best known of rows that cannot be told apart runs" '^1f1b on '
prints 1 "and computes what one device does" '^check against one device: bit-equal$'
prints 1 "what was shown" '^== shown: [0-9]+ schedules predicted from measured ops; 1f1b run for real, [0-9]+ times, .* an error of -?[0-9.]+ %$'
if tail -1 out.txt | grep -q '^== the machine was \(not \)\?quiet: '; then result "how far to trust it, at the end"; else result "how far to trust it, at the end" "$(tail -1 out.txt)"; fi
for file in predicted.json measured.json timeline.svg timeline.png memory.svg; do
  if [ -s demo/$file ]; then result "$file"; else result "$file" "is not there"; fi
done

# The same as a later calibration, after the first one has become slow.
sqlite3 demo/costs.db "UPDATE measurement SET median_ns = 9000000, q3_ns = 9000000 WHERE subject = 'op'"
sed 's/"created": "20/"created": "21/' moved.json >later.json
$real calib import --db demo/costs.db later.json >/dev/null 2>err.txt || cat err.txt >&2
demo "a second demo" '{"results": [{"schedule": "gpipe"}, {"schedule": "1f1b"}]}'
if [ "$(wc -l <measured.txt)" -eq 1 ]; then result "measures nothing"; else result "measures nothing" "$(cat measured.txt)"; fi
prints 1 "and says so" '^the measurements of an earlier demo are used again'
prints 0 "shows the calibration that predictions take" '^layers=.* 9\.00 '
prints 1 "the first row runs where it stands alone" '^gpipe on '
finish
