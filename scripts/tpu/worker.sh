#!/usr/bin/env bash
# On every host of a pod: starts TensorFlow's TPU worker, which the command on
# the first host drives, unless it runs already. Log: worker.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/tpu/common.sh
. scripts/tpu/runtime.sh

PORT="${TPU_TASK_PORT:-8470}"
# The lock is held as long as the worker lives.
command=(nohup flock --nonblock worker.lock
  "$(dirname "$PY")/start_grpc_tpu_worker")
if [ "${DRY_RUN:-0}" = 1 ]; then
  do_it "${command[@]}"
  exit
fi
"${command[@]}" >> worker.log 2>&1 < /dev/null &
for _ in $(seq 120); do
  if (: < "/dev/tcp/localhost/$PORT") 2> /dev/null; then
    echo "$(hostname): the worker listens on port $PORT"
    exit
  fi
  sleep 1
done
tail -n 5 worker.log >&2
die "$(hostname): the worker did not come up in 2 minutes; see $PWD/worker.log"
