#!/bin/sh
# Builds the peers that are written in Go into a cache directory outside the checkout, once: Filebeat
# takes minutes. A directory's name has a checksum of the files that it was built from
# (support/installed.py computes the same). Two runs at once build twice, and one result is kept.
set -eu
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rsocket_trio/peers

# build NAME VERSION [FLAG...] PACKAGE...: the programs of these packages, by the module in directory NAME.
build() {
    name=$1
    version=$2
    shift 2
    sum=$(cd "$name" && cat -- *.mod *.sum *.go | sha256sum | cut -c1-8)
    made=$cache/$name-$version-$sum
    if [ -d "$made" ]; then
        return
    fi
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/.part-XXXXXX")
    trap 'rm -rf "$part"' EXIT
    said=$(cd "$name" &&
        nice go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$part/" "$@" 2>&1) || {
        echo "$said" >&2
        exit 1
    }
    chmod 755 "$part"
    # Renaming is atomic. It fails if another run was first: its directory is not empty.
    mv -T "$part" "$made" 2>/dev/null || [ -d "$made" ]
    rm -rf "$part"
}

tools=github.com/elastic/go-lumber/cmd
build lumber 0.2.0 . $tools/tst-lj $tools/tst-send
build ttrpc 1.2.8 .
build nri 0.10.0 -modfile=v0_10.mod -tags=nri_0_10 .
build nri 0.12.5 .
build shim 2.4.2 github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
build filebeat 7.17.28 .
