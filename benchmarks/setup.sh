#!/bin/sh
# Installs the peers of the benchmark, each exactly as its lock file or its project file says:
# rsocket-js (npm), rsocket-java (Maven), rsocket-go, go-lumber and containerd's ttrpc (the Go module
# proxy). One whose tools are absent is named and left out, and the report says so, too.
# (tests/interop/setup.sh installs all of these tools but Go, and builds Filebeat; the peers in
# Python come with the extra: pip install '.[peers]'.)
# Says nothing where all is there.
set -eu
cd "$(dirname "$0")"

have() {
    for tool; do
        command -v "$tool" >/dev/null 2>&1 || return 1
    done
}

# Whether $1 is absent, or older than one of the files and directories that follow.
stale() {
    made=$1
    shift
    ! [ -f "$made" ] || [ -n "$(find "$@" -newer "$made")" ]
}

# make_peer NAME DIRECTORY COMMAND...: what the command says is told only where it fails.
make_peer() {
    name=$1
    directory=$2
    shift 2
    said=$(cd "$directory" && "$@" 2>&1) || {
        echo "$said" >&2
        echo "setup.sh: $name is left out: '$*' failed in benchmarks/$directory" >&2
    }
}

left_out() {
    echo "setup.sh: $1 is left out: it needs $2" >&2
}

if ! have node npm; then
    left_out rsocket-js "node and npm"
# npm leaves a copy of the lock file where it has installed all of it.
elif stale js/node_modules/.package-lock.json js/package-lock.json; then
    make_peer rsocket-js js npm ci --ignore-scripts --no-fund --no-audit
fi

if ! have javac mvn; then
    left_out rsocket-java "a JDK and Maven"
elif stale java/target/bench.jar java/pom.xml java/src; then
    rm -rf java/target
    make_peer rsocket-java java mvn --batch-mode --quiet package
fi

if ! have go; then
    left_out rsocket-go "Go 1.22 or newer"
elif stale go/peer go/go.mod go/go.sum go/*.go; then
    make_peer rsocket-go go go build -o peer .
fi

if ! have go; then
    left_out go-lumber "Go 1.22 or newer"
elif stale lumberjack/go/peer lumberjack/go/go.mod lumberjack/go/go.sum lumberjack/go/*.go; then
    make_peer go-lumber lumberjack/go go build -o peer .
fi

if ! have go; then
    left_out "containerd's ttrpc" "Go 1.22 or newer"
elif stale ttrpc/go/peer ttrpc/go/go.mod ttrpc/go/go.sum ttrpc/go/*.go; then
    make_peer "containerd's ttrpc" ttrpc/go go build -o peer .
fi
