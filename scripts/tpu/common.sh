# Sourced by the scripts beside it. Variables, all of them overridable:
#   TPU_NAME  name of the TPU VM            ZONE     e.g. us-central1-a
#   PROJECT   Google Cloud project          TYPE     e.g. v3-8, v4-32
#   RUNTIME   TPU VM image                  REPO     where this checkout is
# DRY_RUN=1 prints every command instead of running it.

TPU_NAME="${TPU_NAME:-xlnet}"
ZONE="${ZONE:-us-central1-a}"
PROJECT="${PROJECT:-}"
TYPE="${TYPE:-v3-8}"
RUNTIME="${RUNTIME:-tpu-ubuntu2204-base}"
REPO="${REPO:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
REMOTE=xlnet-tf2

say() { printf '\n== %s\n' "$*"; }
need() {
  for name in "$@"; do
    if [ -z "${!name:-}" ]; then
      echo "error: set $name, for example $name=gs://bucket/folder" >&2
      exit 1
    fi
  done
}

do_it() {
  if [ "${DRY_RUN:-0}" = 1 ]; then
    printf '%q ' "$@"
    printf '\n'
  else
    "$@"
  fi
}

tpu() {
  local action="$1"
  shift
  do_it gcloud compute tpus tpu-vm "$action" "$TPU_NAME" --zone="$ZONE" \
    ${PROJECT:+--project="$PROJECT"} "$@"
}

# Makes the TPU VM and installs the project on all of its hosts.
create_and_install() {
  say "making $TPU_NAME ($TYPE in $ZONE)"
  tpu create --accelerator-type="$TYPE" --version="$RUNTIME"
  say "copying the project and installing it on every host"
  do_it tar --exclude=.git --exclude=.venv -czf "/tmp/$REMOTE.tgz" -C "$REPO" .
  do_it gcloud compute tpus tpu-vm scp "/tmp/$REMOTE.tgz" "$TPU_NAME:" \
    --zone="$ZONE" ${PROJECT:+--project="$PROJECT"} --worker=all
  tpu ssh --worker=all --command="mkdir -p $REMOTE && tar -xzf $REMOTE.tgz -C $REMOTE && cd $REMOTE && python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt -r requirements-tpu.txt"
}

# Runs a command of the project on the first host (TensorFlow drives the others
# of a pod from there: set TPU_ADDRESS to the TPU's name); it goes on after the
# connection breaks. Started again, it continues from the last checkpoint.
run_on_tpu() {
  local line
  line=$(printf '%q ' "$@")
  say "$*"
  tpu ssh --worker=0 --command="cd $REMOTE && PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL=2 nohup .venv/bin/python $line > run.log 2>&1 & tail --pid=\$! -n +1 -F $REMOTE/run.log"
}

delete_vm() {
  say "deleting $TPU_NAME"
  tpu delete --quiet
}

# With CREATE=1 the VM is made first, with DELETE=1 deleted at the end.
on_tpu() {
  [ "${CREATE:-0}" = 1 ] && create_and_install
  run_on_tpu "$@" --use_tpu --tpu="${TPU_ADDRESS:-local}" \
    --precision=mixed_bfloat16
  [ "${DELETE:-0}" = 1 ] && delete_vm
  return 0
}
