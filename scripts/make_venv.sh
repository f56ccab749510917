#!/bin/sh
# Makes a virtual environment with pip, even if Debian's package python3-venv is not installed.
# Usage: scripts/make_venv.sh DIRECTORY [PYTHON]
set -eu
venv=$1
python=${2:-python3}

fail() {
    echo "make_venv.sh: $*" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "$python is not installed"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" --version 2>&1), but 3.11 or newer is needed; try make PYTHON=python3.12"

"$venv/bin/python" -m pip --version >/dev/null 2>&1 && exit 0

# The usual case: the venv module installs pip.
if "$python" -m venv --clear "$venv" >/dev/null 2>&1; then
    exit 0
fi
# A pip outside the environment can install one inside.
if "$python" -m pip --version >/dev/null 2>&1 &&
    "$python" -m venv --clear --without-pip "$venv" &&
    "$python" -m pip --python "$venv/bin/python" install --quiet pip; then
    exit 0
fi
# Debian has a separate package with pip for virtual environments.
if command -v apt-get >/dev/null 2>&1; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    if $as_root true 2>/dev/null; then
        echo "make_venv.sh: installing Debian's python3-venv"
        if $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; then
            exec "$python" -m venv --clear "$venv"
        fi
    fi
fi
fail "$python cannot make virtual environments; on Debian: sudo apt-get install python3-venv"
