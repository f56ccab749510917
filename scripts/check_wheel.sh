#!/bin/sh
# Builds the wheel, installs it into a new environment, and runs the smoke tests against it. They run
# in an empty directory, so a file that is missing from the wheel is noticed.
# Usage: scripts/check_wheel.sh PYTHON
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
    /*) python=$1 ;;
    *) python=$here/$1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work/dist" "$here"
sh "$here/scripts/make_venv.sh" "$work/venv" "$python"
wheel=$(echo "$work"/dist/*.whl)
"$work/venv/bin/python" -m pip --quiet --disable-pip-version-check install "$wheel[test]"
mkdir "$work/empty"
mkdir "$work/tests"
cp "$here/tests/test_smoke.py" "$work/tests"
cd "$work/empty"
"$work/venv/bin/rsocket-trio" --version
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider -c "$here/pyproject.toml" \
    --override-ini pythonpath= --rootdir "$work" -m smoke "$work/tests/test_smoke.py"
