#!/bin/sh
# Installs what the interoperability tests need beside Python: Node, Chromium and the npm modules.
# Says nothing where all is there. (rsocket-py comes with the extra: pip install '.[peers]'.)
set -eu
cd "$(dirname "$0")"

have() {
    command -v "$1" >/dev/null 2>&1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

absent=""
have node || absent="$absent nodejs"
have npm || absent="$absent npm"
have chromium || absent="$absent chromium"

if [ -n "$absent" ]; then
    if ! have apt-get || ! as_root true 2>/dev/null; then
        echo "setup.sh: install these first, apt-get cannot be used here:$absent" >&2
        exit 1
    fi
    as_root apt-get update -qq
    # Unquoted: one word per package.
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $absent >/dev/null
fi

# npm leaves a copy of the lock file where it has installed all of it. No scripts: esbuild's binary
# comes in a package of its own.
if ! [ js/node_modules/.package-lock.json -nt js/package-lock.json ]; then
    (cd js && npm ci --ignore-scripts --silent)
fi
