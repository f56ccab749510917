#!/bin/sh
# Installs what the interoperability tests need beside Python: Node, Chromium and the npm modules,
# Java, its libraries and Spring, containerd's programs, and the programs in Go and Rust: Filebeat and the peer
# in Rust take two minutes each, once for all checkouts (go/build.sh, rust/build.sh). What cannot be
# installed is named at the end, the rest is there then. Says nothing where all is there. (The Python
# peers come with the extra: pip install '.[peers]'.)
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
have javac || absent="$absent default-jdk-headless"
have mvn || absent="$absent maven"

if [ -n "$absent" ] && have apt-get && as_root true 2>/dev/null; then
    as_root apt-get update -qq
    # Unquoted: one word per package.
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $absent >/dev/null
    absent=""
fi

# npm leaves a copy of the lock file where it has installed all of it. No scripts: esbuild's binary
# comes in a package of its own.
if have npm && ! [ js/node_modules/.package-lock.json -nt js/package-lock.json ]; then
    (cd js && npm ci --ignore-scripts --silent)
fi

# The archive of classes is the last that is made. Java compares the class path it was made with by
# the letter: support/stacks.py gives the same one.
if have javac && have mvn &&
    ! { [ -f java/target/peer.jsa ] &&
        [ -z "$(find java/pom.xml java/src -newer java/target/peer.jsa)" ]; }; then
    rm -rf java/target
    # Quiet, it still writes escape sequences.
    said=$(cd java && mvn --batch-mode --quiet package 2>&1) || {
        echo "$said" >&2
        exit 1
    }
    java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable \
        -XX:ArchiveClassesAtExit="$PWD/java/target/peer.jsa" \
        -cp "$PWD/java/target/peer.jar" peer.Rehearsal
fi

# The jar is the last that is made.
if have javac && have mvn; then
    for version in 3.5.10 4.0.7; do
        jar=spring/target/$version/spring.jar
        [ -f "$jar" ] && [ -z "$(find spring/pom.xml spring/src -newer "$jar")" ] && continue
        said=$(cd spring && rm -rf "target/$version" &&
            mvn --batch-mode --quiet "-Dspring-boot.version=$version" package 2>&1) || {
            echo "$said" >&2
            exit 1
        }
    done
fi

# Debian's Go and Rust are too old for these, so apt-get cannot help.
if have go; then
    ./go/build.sh
else
    absent="$absent go(1.24.3)"
fi
if have cargo; then
    ./rust/build.sh
else
    absent="$absent cargo(1.85)"
fi

if have apt-get && have dpkg; then
    ./containerd/unpack.sh
else
    absent="$absent containerd(Debian's package)"
fi

if [ -n "$absent" ]; then
    echo "setup.sh: install these first, apt-get cannot be used:$absent" >&2
    exit 1
fi
