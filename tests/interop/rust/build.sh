#!/bin/sh
# Builds the peer that is written in Rust into a cache directory outside the checkout, once. The directory's
# name has a checksum of the files that it was built from (support/installed.py computes the same). Two
# runs at once build twice, and one result is kept.
set -eu
cd "$(dirname "$0")/ttrpc"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rsocket_trio/peers

sum=$(cat -- Cargo.lock Cargo.toml build.rs streaming.proto src/*.rs | sha256sum | cut -c1-8)
made=$cache/ttrpc-rust-0.9.0-$sum
if [ -d "$made" ]; then
    exit
fi
mkdir -p "$cache"
part=$(mktemp -d "$cache/.part-XXXXXX")
target=$(mktemp -d)
trap 'rm -rf "$part" "$target"' EXIT
said=$(CARGO_TARGET_DIR=$target nice cargo build --locked --release --quiet 2>&1) || {
    echo "$said" >&2
    exit 1
}
mv "$target/release/ttrpc-peer" "$part/"
chmod 755 "$part"
# Renaming is atomic. It fails if another run was first: its directory is not empty.
mv -T "$part" "$made" 2>/dev/null || [ -d "$made" ]
