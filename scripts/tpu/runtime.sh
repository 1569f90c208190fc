# Sourced on the TPU VM by job.sh and worker.sh, in the checkout: PY and what
# TensorFlow must know before it is loaded. TPU_RUNTIME=se drives v2 to v4
# through the stream executor, pjrt v5e and later through libtpu's PJRT plugin.

PY="${VENV:-.venv}/bin/python"
[ -x "$PY" ] || die "no $PY: run bash scripts/tpu/install.sh first"
export PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
case "${TPU_RUNTIME:-se}" in
  se) ;;
  pjrt)
    library=$("$PY" -c 'from importlib import metadata; print(metadata.distribution("libtpu").locate_file("libtpu/libtpu.so"))')
    export PJRT_DEVICE=TPU NEXT_PLUGGABLE_DEVICE_USE_C_API=true
    export TF_PLUGGABLE_DEVICE_LIBRARY_PATH="$library"
    ;;
  *) die "TPU_RUNTIME must be se or pjrt, received $TPU_RUNTIME" ;;
esac
