#!/bin/sh
# Unpacks containerd, its shim and runc from Debian's packages into a cache directory outside the checkout,
# once. Nothing is installed: the tests start these programs themselves. The directory's name has a checksum
# of this file (support/installed.py computes the same). Two runs at once unpack twice, and one result is
# kept.
set -eu
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rsocket_trio/peers

made=$cache/containerd-debian-$(sha256sum <unpack.sh | cut -c1-8)
if [ -d "$made" ]; then
    exit
fi
mkdir -p "$cache"
part=$(mktemp -d "$cache/.part-XXXXXX")
packages=$(mktemp -d)
trap 'rm -rf "$part" "$packages"' EXIT
# apt-get downloads as another user, who cannot write here: it says so, and does it as this one.
said=$(cd "$packages" && apt-get download -qq containerd runc 2>&1) || {
    echo "$said" >&2
    exit 1
}
for package in "$packages"/*.deb; do
    dpkg -x "$package" "$packages/all"
done
mv "$packages"/all/usr/bin/containerd "$packages"/all/usr/bin/containerd-shim-runc-v2 \
    "$packages"/all/usr/bin/ctr "$packages"/all/usr/sbin/runc "$part/"
chmod 755 "$part"
# Renaming is atomic. It fails if another run was first: its directory is not empty.
mv -T "$part" "$made" 2>/dev/null || [ -d "$made" ]
