# Sourced by the scripts beside it. Variables, all of them overridable:
#   TPU_NAME  name of the TPU VM            ZONE     e.g. us-central1-a
#   PROJECT   Google Cloud project          TYPE     e.g. v3-8, v4-32
#   RUNTIME   TPU VM image                  REPO     where this checkout is
#   TPU_ADDRESS  value of --tpu: "local" for one host, else the TPU's name
#   SPOT=1    a VM that may be preempted
#   SUPERVISE=1  a preempted VM is made again and the command started again
# With --dry_run (or DRY_RUN=1) every command is printed instead of run.

REPO="${REPO:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
REMOTE=xlnet-tf2

arguments=()
for argument in "$@"; do
  case "$argument" in
    --dry_run | --dry-run) DRY_RUN=1 ;;
    *) arguments+=("$argument") ;;
  esac
done
set -- ${arguments[@]+"${arguments[@]}"}

say() { printf '\n== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
need() {
  for name in "$@"; do
    [ -n "${!name:-}" ] || die "set $name, for example $name=gs://bucket/folder"
  done
}

# A line that a shell would read as these words.
quoted() {
  local word line=""
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word=${word@Q}
    line+="$word "
  done
  printf '%s' "${line% }"
}

do_it() {
  if [ "${DRY_RUN:-0}" = 1 ]; then
    printf '%s\n' "$(quoted "$@")"
  else
    "$@"
  fi
}

# From TYPE: image, how TensorFlow drives the chips, whether there are several
# hosts (up to 8 cores, or chips of v5e and v6e, are one host's).
settings() {
  TPU_NAME="${TPU_NAME:-xlnet}"
  ZONE="${ZONE:-us-central1-a}"
  PROJECT="${PROJECT:-}"
  TYPE="${TYPE:-v3-8}"
  local image
  TPU_RUNTIME=pjrt
  case "$TYPE" in
    v2-* | v3-* | v4-*)
      image=tpu-ubuntu2204-base
      TPU_RUNTIME=se
      ;;
    v5litepod-*) image=v2-alpha-tpuv5-lite ;;
    v5p-*) image=v2-alpha-tpuv5 ;;
    v6e-*) image=v2-alpha-tpuv6e ;;
    *) die "TYPE=$TYPE is not v2-N, v3-N, v4-N, v5litepod-N, v5p-N or v6e-N" ;;
  esac
  RUNTIME="${RUNTIME:-$image}"
  [[ ${TYPE##*-} =~ ^[0-9]+$ ]] || die "TYPE=$TYPE does not end in a number"
  SEVERAL_HOSTS=0
  if [ "${TYPE##*-}" -gt 8 ]; then
    SEVERAL_HOSTS=1
    [[ $TYPE != v6e-* ]] ||
      die "TYPE=$TYPE has several hosts; TensorFlow's worker knows v2 to v5 pods only: take v6e-8 or smaller"
  fi
}

tpu() {
  local action="$1"
  shift
  do_it gcloud compute tpus tpu-vm "$action" "$@" --zone="$ZONE" \
    ${PROJECT:+--project="$PROJECT"}
}

# Makes the TPU VM and the project's environment on all of its hosts.
create_and_install() {
  say "making $TPU_NAME ($TYPE in $ZONE)"
  tpu create "$TPU_NAME" --accelerator-type="$TYPE" --version="$RUNTIME" \
    ${SPOT:+--spot} || return
  say "copying the project and installing it on every host"
  do_it tar --exclude=./.git --exclude='./.venv*' --exclude=__pycache__ \
    --exclude=./quickstart_output --exclude=./lm_quickstart_output \
    --exclude=./released_output --exclude=./build \
    -czf "/tmp/$REMOTE.tgz" -C "$REPO" . || return
  tpu scp "/tmp/$REMOTE.tgz" "$TPU_NAME:" --worker=all || return
  tpu ssh "$TPU_NAME" --worker=all --command="mkdir -p $REMOTE && tar -xzf $REMOTE.tgz -C $REMOTE && bash $REMOTE/scripts/tpu/install.sh"
}

# A pod's hosts: each runs TensorFlow's worker, which the first host drives.
start_workers() {
  say "starting TensorFlow's worker on every host"
  tpu ssh "$TPU_NAME" --worker=all --command="TPU_RUNTIME=$TPU_RUNTIME bash $REMOTE/scripts/tpu/worker.sh"
}

# Runs a command of the project on the first host and shows its log. It goes on
# when the connection breaks; started again, it continues from the checkpoint.
run_on_tpu() {
  if [ "$SEVERAL_HOSTS" = 1 ]; then
    start_workers || return
  fi
  local setting="TPU_RUNTIME=$TPU_RUNTIME"
  if [ "$SEVERAL_HOSTS" = 1 ]; then
    setting+=" TPU_LOAD_LIBRARY=0" # the workers hold the chips
  fi
  say "$1 on $TPU_NAME"
  tpu ssh "$TPU_NAME" --worker=0 --command="$setting bash $REMOTE/scripts/tpu/job.sh $(quoted "$@")"
}

# READY, PREEMPTED, ...; MISSING where there is no VM, UNKNOWN where gcloud does
# not say so: without a network, for example.
tpu_state() {
  local errors status=0
  errors=$(mktemp)
  tpu describe "$TPU_NAME" --format="value(state)" 2> "$errors" || status=$?
  if [ "$status" != 0 ]; then
    if grep -qi "not[_ ]found" "$errors"; then
      echo MISSING
    else
      cat "$errors" >&2
      echo UNKNOWN
    fi
  fi
  rm -f "$errors"
}

recreate() {
  tpu delete "$TPU_NAME" --quiet || true # there may be none any more
  create_and_install
}

# Runs a command until it ends by itself: where the VM is gone, another one is
# made and the same command goes on there from its last checkpoint. A VM that is
# READY a while after the command failed is not the reason.
supervise() {
  local status state lost
  if [ "${DRY_RUN:-0}" = 1 ]; then
    run_on_tpu "$@"
    say "whenever that fails: the state of $TPU_NAME"
    tpu describe "$TPU_NAME" --format="value(state)"
    say "where it is not READY"
    recreate
    run_on_tpu "$@"
    return
  fi
  for ((lost = 0; lost <= ${MAX_RESTARTS:-100}; )); do
    status=0
    run_on_tpu "$@" || status=$?
    [ "$status" != 0 ] || return 0
    state=$(tpu_state)
    if [ "$state" = READY ]; then
      sleep "${CHECK_SECONDS:-60}"
      state=$(tpu_state)
    fi
    while [ "$state" = UNKNOWN ]; do
      say "the state of $TPU_NAME is not known; asking again"
      sleep "${CHECK_SECONDS:-60}"
      state=$(tpu_state)
    done
    if [ "$state" = READY ]; then
      [ "$status" = 255 ] || return "$status"
      say "the connection to $TPU_NAME broke; connecting again"
      continue
    fi
    lost=$((lost + 1))
    say "$TPU_NAME is $state: making it again ($lost)"
    until recreate; do
      say "$TPU_NAME could not be made; trying again"
      sleep "${CHECK_SECONDS:-60}"
    done
  done
  return 1
}

# With CREATE=1 the VM is made first, with DELETE=1 deleted after a good end.
on_tpu() {
  settings
  local address="${TPU_ADDRESS:-local}"
  local flags=()
  if [ "$SEVERAL_HOSTS" = 1 ]; then
    address="${TPU_ADDRESS:-$TPU_NAME}"
    flags=(--tpu_zone="$ZONE" ${PROJECT:+--gcp_project="$PROJECT"})
  fi
  if [ "${CREATE:-0}" = 1 ]; then
    create_and_install
  fi
  local start=run_on_tpu
  if [ "${SUPERVISE:-0}" = 1 ]; then
    start=supervise
  fi
  if ! "$start" "$@" --use_tpu --tpu="$address" \
    ${flags[@]+"${flags[@]}"} --precision=mixed_bfloat16; then
    die "$1 failed; $TPU_NAME is kept, its log is $REMOTE/run.log. Delete it with: $(DRY_RUN=1 tpu delete "$TPU_NAME" --quiet)"
  fi
  if [ "${DELETE:-0}" = 1 ]; then
    say "deleting $TPU_NAME"
    tpu delete "$TPU_NAME" --quiet
  fi
}
