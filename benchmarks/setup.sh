#!/bin/sh
# Installs the JavaScript peer of the benchmark, exactly as its lock file says.
set -eu
cd "$(dirname "$0")/js"
exec npm ci --no-fund --no-audit
