#!/usr/bin/env bash
# On a TPU VM, the same on every host: makes the environment .venv (or VENV)
# with the packages of requirements-tpu.txt and the TPU build of TensorFlow.
# Run again it only checks, and installs again what is wrong.
#   [PYTHON=/path/to/python3.11] bash scripts/tpu/install.sh [--dry_run]
# Python 3.11 or 3.12: PYTHON, else one on PATH, else the distribution's
# package, else one that uv downloads.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/tpu/common.sh

VENV="${VENV:-.venv}"
UV=uv==0.13.9
CORRECT='from common.process import tpu_build; tpu_build.check_packages("requirements-tpu.txt")'
# With TPU_LOAD_LIBRARY=0 nothing asks for a TPU.
IMPORT='import tensorflow, tensorflow_text, tf_keras, official; print("tensorflow", tensorflow.__version__)'

version() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "no Python"; }

# A released 3.11 or 3.12 that can make environments.
fits() {
  "$1" -c 'import ensurepip, sys, venv; v = sys.version_info; sys.exit(not ((3, 11) <= v[:2] <= (3, 12) and v.releaselevel == "final"))' 2>/dev/null
}

as_root() {
  if [ "$(id -u)" = 0 ]; then do_it "$@"; else do_it sudo "$@"; fi
}

# Debian 12 and Ubuntu 24.04 have one; Ubuntu 22.04 a release candidate only.
from_distribution() {
  local name offered
  command -v apt-get > /dev/null || return 1
  as_root apt-get update -q >&2 || return 1
  for name in python3.11 python3.12; do
    offered=$(apt-cache policy "$name" 2>/dev/null | awk '/Candidate:/ { print $2 }')
    case "$offered" in '' | '(none)' | *~rc* | *~b[0-9]* | *~a[0-9]*) continue ;; esac
    as_root apt-get install -y -q "$name" "$name-venv" >&2 || continue
    FOUND=$name
    return 0
  done
  return 1
}

from_uv() {
  local uv
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    python3 -m pip --version > /dev/null 2>&1 || return 1
    do_it python3 -m pip install --quiet --user "$UV" >&2 || return 1
    uv="$(python3 -m site --user-base)/bin/uv"
  fi
  do_it "$uv" python install 3.11 >&2 || return 1
  if [ "${DRY_RUN:-0}" = 1 ]; then
    FOUND=python3.11
  else
    FOUND=$("$uv" python find --managed-python 3.11)
  fi
}

find_python() {
  local name
  FOUND=""
  if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || die "PYTHON=$PYTHON is $(version "$PYTHON"); a released Python 3.11 or 3.12 with venv is needed"
    FOUND=$PYTHON
    return
  fi
  for name in python3.11 python3.12 python3; do
    if fits "$name"; then
      FOUND=$name
      return
    fi
  done
  say "python3 is $(version python3); getting 3.11"
  if from_distribution && { [ "${DRY_RUN:-0}" = 1 ] || fits "$FOUND"; }; then return; fi
  from_uv || FOUND=""
  if [ "${DRY_RUN:-0}" != 1 ]; then
    fits "$FOUND" || die "no Python 3.11 or 3.12, python3 is $(version python3): neither the distribution nor uv gave one; install one and set PYTHON=/path/to/python3.11"
  fi
}

if [ -x "$VENV/bin/python" ]; then
  fits "$VENV/bin/python" ||
    die "$VENV has $(version "$VENV/bin/python"), 3.11 or 3.12 is needed: remove it (rm -r $VENV) and run this again"
else
  find_python
  say "making $VENV with Python $(version "$FOUND")"
  do_it "$FOUND" -m venv "$VENV"
fi
PY="$VENV/bin/python"

if [ "${DRY_RUN:-0}" != 1 ] && "$PY" -c "$CORRECT" 2> /dev/null; then
  echo "$VENV: already installed"
else
  say "installing requirements-tpu.txt (about 0.9 GB to download)"
  # Another build has files in the same folder: both go, one comes back.
  do_it "$PY" -m pip uninstall --quiet --yes tensorflow tensorflow-tpu
  do_it "$PY" -m pip install --quiet --disable-pip-version-check --no-deps \
    -r requirements-tpu.txt
fi
say "checking"
do_it "$PY" -c "$CORRECT"
do_it env TPU_LOAD_LIBRARY=0 TF_CPP_MIN_LOG_LEVEL=3 "$PY" -c "$IMPORT"
if [ "${DRY_RUN:-0}" != 1 ]; then
  echo "$(hostname): Python $(version "$PY"), $("$PY" -c 'from common.process import tpu_build; print(tpu_build.describe())'), packages $(cksum < requirements-tpu.txt | tr ' ' '-')"
fi
