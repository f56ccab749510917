#!/bin/sh
# Prints the path of a Python 3.N, for systems whose own packages are older. Usage: unpack_python.sh 3.N
# Takes the one that is installed. Otherwise unpacks Debian's package of a newer release, with the C library
# that it needs, into a cache directory outside the checkout, once. Nothing is installed and root is not
# needed; apt-get checks the signatures. The directory's name has a checksum of this file. Two runs at once
# unpack twice, and one result is kept.
set -eu
name=python$1
suite=forky

fail() {
    echo "unpack_python.sh: $*" >&2
    exit 1
}

# pyenv has commands for versions that are not chosen: they only say so.
if "$name" -c '' 2>/dev/null; then
    command -v "$name"
    exit
fi

for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null 2>&1 || fail "$name is not installed, and without $tool it cannot be unpacked"
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rsocket_trio/pythons
made=$cache/$name-$(sha256sum <"$0" | cut -c1-8)
if [ ! -d "$made" ]; then
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/.part-XXXXXX")
    work=$(mktemp -d)
    trap 'rm -rf "$part" "$work"' EXIT

    # apt-get with lists of its own, and a system on which nothing is installed: it names all that is needed.
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    touch "$work/status"
    # The mirror of this system has the newer release too.
    mirror=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' | grep -v security | head -n 1)
    [ -n "$mirror" ] || fail "apt-get knows no mirror of Debian: run 'apt-get update' first, as root"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
        >"$work/sources.list"
    apt() {
        apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
            -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status" \
            -o Dir::Cache="$work" -o Acquire::Languages=none -o APT::Sandbox::User= \
            -o APT::Get::AllowUnauthenticated=false -o Debug::NoLocking=true "$@" >"$work/said" 2>&1 || {
            cat "$work/said" >&2
            fail "apt-get cannot load $name of Debian's $suite"
        }
    }
    echo "unpack_python.sh: loading $name of Debian's $suite" >&2
    apt update
    apt install --download-only --no-install-recommends "$name" "$name-venv" libstdc++6
    for package in "$work"/archives/*.deb; do
        dpkg-deb --extract "$package" "$part"
    done

    # A program of a newer C library needs its loader. Only this one gets its libraries, and not the
    # programs that it starts. In a virtual environment $0 is the link there, by which Python finds it.
    loader=$(find "$part/usr/lib" -name 'ld-linux-*' | head -n 1)
    libraries=$(dirname "$(find "$part/usr/lib" -name libc.so.6)")
    mkdir "$part/usr/libexec"
    mv "$part/usr/bin/$name" "$part/usr/libexec/$name"
    cat >"$part/usr/bin/$name" <<END
#!/bin/sh
exec '$made${loader#"$part"}' --library-path '$made${libraries#"$part"}' --argv0 "\$0" \\
    '$made/usr/libexec/$name' "\$@"
END
    chmod 755 "$part/usr/bin/$name"
    # Its venv looks for the wheel of pip where an installed package has it.
    sed -i "s|^_pkg_dir = .*|_pkg_dir = '$made/usr/share/python-wheels'|" \
        "$part/usr/lib/$name/ensurepip/__init__.py"

    chmod 755 "$part"
    # Renaming is atomic. It fails if another run was first: its directory is not empty.
    mv -T "$part" "$made" 2>/dev/null || [ -d "$made" ]
fi
echo "$made/usr/bin/$name"
