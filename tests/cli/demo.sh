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
  calib\ run*) ;;
  predict*--json) echo '{"results": [{"schedule": "pipedream"}, {"schedule": "1f1b"}]}'; exit ;;
  *) exec $real "\$@" ;;
esac
while [ \$# -gt 1 ]; do [ "\$1" = -p ] && p=\$2; shift; done
$real calib run --db other.db --profile this-machine --model small.ini -p \$p --max-samples 2 --time-limit 500ms
$real calib export --db other.db --profile this-machine | awk -f "$G_TEST_SRCDIR/cli/restless.awk" >moved.json
$real calib import --db demo/costs.db moved.json
TEXT
chmod +x stubs/* build/pipesim

PATH=$PWD/stubs:$PATH ./run demo >out.txt 2>err.txt
code=$?
if [ $code -eq 0 ]; then result "demo"; else result "demo" "exit code $code" "$(tail -3 err.txt)"; fi

# prints N NAME PATTERN: on so many lines of what was printed.
prints ()
{
  n=$(cat out.txt err.txt | grep -cE "$3")
  if [ "$n" -eq "$1" ]; then result "$2"; else result "$2" "$n lines of $3 in:" "$(cat out.txt err.txt)"; fi
}

prints 1 "times have headings" '^stage +F ms +B ms +W ms +BW ms +O ms +samples, at least *$'
prints 0 "no line for each measurement" ' of [0-9]+: '
prints 1 "what the sentinel did" '^sentinel F of layers=1: 4 readings, moved by 50\.0 %'
prints 2 "a verdict on the figures" '^== DO NOT TRUST these figures: .*moved by up to 50 %.*run it again'
prints 0 "no refusals" '^pipesim exec:'
prints 1 "the first row runs" '^pipedream on '
prints 1 "and computes what its rule says" '^check against one device: bit-equal$'
prints 1 "what was shown" '^== shown: [0-9]+ schedules predicted from measured ops; pipedream run for real: .*s, predicted .*s \([-+][0-9.]+ %\)$'
prints 1 "and how far to trust it" '^== noise: this machine was not quiet, \+-50\.0 %: '
if tail -1 out.txt | grep -q '^== noise: '; then result "at the end"; else result "at the end" "$(tail -1 out.txt)"; fi
finish
