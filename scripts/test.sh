#!/usr/bin/env bash
# Installs what is missing and passes the tests.
#   bash scripts/test.sh            the default tier (2 to 4 minutes on 2 cores)
#   bash scripts/test.sh --long     the long tests too (7 to 13 minutes)
#   bash scripts/test.sh --all      the slow tier too
#   bash scripts/test.sh --rest     what --long skips without the reference folder,
#                                   then the slow tier
#   bash scripts/test.sh [--long | --all | --rest] [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
# EXTRA_REQUIREMENTS: optional files whose tests are skipped otherwise.
# shellcheck disable=SC2086
setup requirements-dev.txt ${EXTRA_REQUIREMENTS:-}

slow=0
tier="default tier"
marks="not slow and not bench"
case "${1:-}" in
  --long) tier="default tier and long tests"; shift ;;
  --all) tier="default tier and long tests"; slow=1; shift ;;
  --rest) tier="of the reference folder"; marks="shared and $marks"; slow=1; shift ;;
  *) marks="$marks and not long" ;;
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

# In CI one more try tells load from a fault; the summary names what needed
# it.
again=()
[ "$slow" = 0 ] || again=(--reruns 1 -rR)
failed=0
# tests ARGUMENTS: notes a failure and goes on; an interrupt (2) ends all.
tests() {
  local status=0
  "$PY" -m pytest -n 2 --dist loadgroup "$@" || status=$?
  [ "$status" != 2 ] || exit 2
  [ "$status" = 0 ] || failed=1
}
say "tests: $tier"
tests -m "$marks" "${again[@]}" "$@"
if [ "$slow" = 1 ]; then
  # These start processes and kill them. A process keeps what it has compiled: so
  # new ones for every part.
  order=$("$PY" -m tools.tiers)
  [ $# = 0 ] || order="$*"
  mapfile -t parts <<<"$order"
  for i in "${!parts[@]}"; do
    if [ "$(date +%s)" -ge "${XLNET_SLOW_UNTIL:-9999999999}" ]; then
      say "NOT RUN: slow tier, parts $((i + 1)) to ${#parts[@]} (XLNET_SLOW_UNTIL)"
      break
    fi
    say "tests: slow tier, part $((i + 1)) of ${#parts[@]}"
    read -ra part <<<"${parts[i]}"
    tests -m "slow and not bench" "${again[@]}" "${part[@]}"
  done
fi
exit "$failed"
