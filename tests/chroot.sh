#!/usr/bin/env bash
# chroot.sh - the promise of the README in an empty Debian 12: git clone, ./run test, ./run demo, with nothing else installed.
#
#   sudo tests/chroot.sh [FOLDER]   (default: a temporary one; needs debootstrap, root, 4 GB and some 15 minutes)
#
# Takes the Debian mirror, its keys and the network settings of this machine. Clones the commit that is checked out and puts the working
# tree's changes on top. Not part of ./run test.
set -euo pipefail

source_dir=$(cd "$(dirname "$0")/.." && pwd)
root=${1:-$(mktemp -d)}
mkdir -p "$root"
chmod 755 "$root" # mktemp keeps ordinary users out, and tests use one

# The mirror of the first Debian source, in either format that apt reads.
mirror ()
{
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) +bookworm .*/\2/p'
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -nE 's/^URIs: *([^ ]+).*/\1/p'; } | head -1
}

clean_up ()
{
  local mount
  for mount in proc dev/pts dev; do
    mountpoint -q "$root/$mount" && umount -l "$root/$mount"
  done
  case $root in /tmp/*) rm -rf --one-file-system "$root" ;; esac
}
trap clean_up EXIT

# Network and apt settings of this machine, so that the new system reaches the same mirror the same way.
copy_settings ()
{
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  rm -f "$root/etc/apt/sources.list"
  cp -a /etc/apt/. "$root/etc/apt/"
  if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
  fi
}

inside ()
{
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} "$@"
}

echo "== an empty Debian 12 in $root"
debootstrap --variant=minbase --include=git,ca-certificates bookworm "$root" "$(mirror)" >"$root.log" 2>&1 \
  || { tail -20 "$root.log"; exit 1; }
copy_settings
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"

echo '== git clone'
git -C "$source_dir" bundle create "$root/root/pipesim.bundle" HEAD >/dev/null 2>&1
inside git clone -q /root/pipesim.bundle /root/pipesim
(cd "$source_dir" && git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - 2>/dev/null) \
  | tar -x -C "$root/root/pipesim"

for job in test demo; do
  echo "== ./run $job"
  time inside sh -c "cd /root/pipesim && ./run $job"
done
echo '== ./run build again: installs nothing'
inside sh -c 'cd /root/pipesim && ./run build'
