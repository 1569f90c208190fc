#!/usr/bin/env bash
# Installs what is missing and passes the tests.
#   bash scripts/test.sh            the default tier (under 4 minutes on 2 cores)
#   bash scripts/test.sh --all      the slow tier too
#   bash scripts/test.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
# EXTRA_REQUIREMENTS: optional files whose tests are skipped otherwise.
# shellcheck disable=SC2086
setup requirements-dev.txt ${EXTRA_REQUIREMENTS:-}

all=0
if [ "${1:-}" = "--all" ]; then
  all=1
  shift
fi

say "formatting and lint"
"$PY" -m ruff format --check .
"$PY" -m ruff check .

say "tests: default tier"
"$PY" -m pytest -n 2 -m "not slow and not bench" "$@"
if [ "$all" = 1 ]; then
  say "tests: slow tier"
  # These start processes and kill them; one more try tells load from a fault,
  # and the summary names what needed it.
  "$PY" -m pytest -n 2 -m "slow and not bench" --reruns 1 -rR "$@"
fi
