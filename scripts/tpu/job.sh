#!/usr/bin/env bash
# On the TPU VM: runs a command of the project in the background, shows its log
# (run.log) and ends with its status. A command that is still running, because
# the connection broke, is not started a second time: its log is shown. Another
# one is refused meanwhile.
#   bash scripts/tpu/job.sh run_pretrain.py --data_dir=... [--dry_run]
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/tpu/common.sh
. scripts/tpu/runtime.sh

if [ "${DRY_RUN:-0}" = 1 ]; then
  quoted nohup "$PY" "$@"
  echo
  exit
fi
# After a restart of the machine another process may have the number.
if [ -s run.pid ] && ps -o args= -p "$(cat run.pid)" | grep -q run.status; then
  running=$(cat run.command 2> /dev/null || true)
  [ -z "$running" ] || [ "$running" = "$(quoted "$@")" ] ||
    die "process $(cat run.pid) still runs another command ($running): wait for its end (run.log), or end it with pkill -P $(cat run.pid)"
  say "already running as process $(cat run.pid)"
else
  rm -f run.status
  quoted "$@" > run.command
  : > run.log # here: the log of the job before is not shown again
  # shellcheck disable=SC2016
  nohup bash -c 'status=0; "$@" || status=$?; echo $status > run.status' \
    job "$PY" "$@" >> run.log 2>&1 < /dev/null &
  echo $! > run.pid
fi
tail --pid="$(cat run.pid)" -n +1 -F run.log 2> /dev/null
[ -s run.status ] || die "the command was killed; see $PWD/run.log"
exit "$(cat run.status)"
