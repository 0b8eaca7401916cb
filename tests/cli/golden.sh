#!/bin/sh
# golden.sh - replays the transcripts in tests/golden and compares byte by byte.
#
# A transcript holds commands, each on a line that begins with "$ ". After each stands its output on stdout and stderr, and "[N]" if
# its exit code was not 0. All commands of one transcript run in one empty folder. After a wanted change:
#   PIPESIM_BINDIR=build tests/cli/golden.sh --update [NAME...]
# and read the difference before keeping it.
set -u

golden=$(cd "$(dirname "$0")/../golden" && pwd)
PATH=$(cd "$PIPESIM_BINDIR" && pwd):$PATH
export LC_ALL=C.UTF-8
unset COLUMNS LINES
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs the commands of transcript $1 and prints the new transcript.
replay ()
{
  rm -rf "$work/folder"
  mkdir "$work/folder"
  cd "$work/folder" || exit 1
  sed -n '1,/^[^#]/{/^#/p}' "$1"
  grep '^\$ ' "$1" | while read -r line; do
    echo "$line"
    sh -c "${line#\$ }" 2>&1 </dev/null
    code=$?
    [ $code -eq 0 ] || echo "[$code]"
  done
}

update=
if [ "${1:-}" = --update ]; then
  update=1
  shift
fi
[ $# -gt 0 ] || set -- $(cd "$golden" && ls ./*.txt | sed 's|^\./||; s|\.txt$||')

failed=0
number=0
echo "1..$#"
for name; do
  number=$((number + 1))
  (replay "$golden/$name.txt") >"$work/out"
  if [ -n "$update" ]; then
    cp "$work/out" "$golden/$name.txt"
  fi
  if diff -u "$golden/$name.txt" "$work/out" >"$work/diff"; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    sed 's/^/# /' "$work/diff"
    failed=1
  fi
done
exit $failed
