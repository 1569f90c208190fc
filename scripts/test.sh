#!/usr/bin/env bash
# Installs what is missing and passes the tests.
#   bash scripts/test.sh            the default tier (6 to 13 minutes on 2 cores)
#   bash scripts/test.sh --all      the slow tier too
#   bash scripts/test.sh --rest     the slow tier, and of the default tier what
#                                   needs the reference folder
#   bash scripts/test.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
# EXTRA_REQUIREMENTS: optional files whose tests are skipped otherwise.
# shellcheck disable=SC2086
setup requirements-dev.txt ${EXTRA_REQUIREMENTS:-}

all=0
default="not slow and not bench"
case "${1:-}" in
  --all) all=1; shift ;;
  --rest) all=1; default="shared and $default"; shift ;;
esac

say "formatting and lint"
"$PY" -m ruff format --check .
"$PY" -m ruff check .

# Test processes and the commands that tests start are forks of one process that
# has loaded TensorFlow. It ends with this script.
if [ "${1:-}" != --collect-only ]; then
  coproc FORKS { exec "$PY" -m tests.helpers.forks.environment; }
  read -r XLNET_FORKS <&"${FORKS[0]}"
  export XLNET_FORKS
fi

say "tests: default tier"
# In CI one more try tells load from a fault; the summary names what needed
# it.
again=()
[ "$all" = 0 ] || again=(--reruns 1 -rR)
failed=0
# tests ARGUMENTS: notes a failure and goes on; an interrupt (2) ends all.
tests() {
  local status=0
  "$PY" -m pytest -n 2 --dist loadgroup "$@" || status=$?
  [ "$status" != 2 ] || exit 2
  [ "$status" = 0 ] || failed=1
}
tests -m "$default" "${again[@]}" "$@"
if [ "$all" = 1 ]; then
  # These start processes and kill them. A process keeps what it has compiled,
  # 10 GB in the end: so new ones for every part. The parts take turns in being
  # the first: where time ends before all have run (XLNET_SLOW_UNTIL), another
  # commit runs what this one leaves out.
  parts=(tests/training tests/modeling tests/serving others)
  others=("${parts[@]:0:3}")
  turn=$(git rev-list --count HEAD 2>/dev/null || echo 0)
  [ $# = 0 ] || { parts=(others) others=(); }
  for i in "${!parts[@]}"; do
    part=${parts[(turn + i) % ${#parts[@]}]}
    say "tests: slow tier, $part"
    chosen=("$part")
    [ "$part" != others ] || chosen=("${others[@]/#/--ignore=}")
    tests -m "slow and not bench" "${again[@]}" "${chosen[@]}" "$@"
  done
fi
exit "$failed"
