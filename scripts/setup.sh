# Sourced by quickstart.sh and test.sh: makes .venv and installs the pinned
# requirements, once. Usage: . scripts/setup.sh REQUIREMENTS_FILE...

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

find_python() {
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
}

# Changes with the file and with those that such files include.
stamp_of() { cat requirements.txt requirements-corpus.txt requirements-ranking.txt requirements-tokenizers.txt requirements-search.txt requirements-hub.txt "$1" | cksum | tr ' ' '-'; }

setup() {
  local python stamp wanted
  VENV="${VENV:-.venv}"
  if [ ! -x "$VENV/bin/python" ]; then
    python=$(find_python)
    [ -n "$python" ] || die "no Python 3.11, 3.12 or 3.13 found; install one or set PYTHON=/path/to/python3.11"
    say "making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV" || die "$python -m venv failed (on Debian: apt-get install python3-venv)"
  fi
  for file in "$@"; do
    wanted=$(stamp_of "$file")
    stamp="$VENV/.installed-$(basename "$file")-$wanted"
    if [ -e "$stamp" ]; then
      echo "$file: already installed in $VENV"
      continue
    fi
    say "installing $file (the first time takes about two minutes)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r "$file" || die "pip install -r $file failed"
    touch "$stamp"
    if [ "$file" = requirements-dev.txt ]; then # it includes requirements.txt
      touch "$VENV/.installed-requirements.txt-$(stamp_of requirements.txt)"
    fi
  done
  export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}" PYTHONUNBUFFERED=1
  PY="$(cd "$VENV/bin" && pwd)/python"
}
