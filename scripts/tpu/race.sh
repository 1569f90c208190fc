#!/usr/bin/env bash
# RACE on a Cloud TPU VM.
#   CREATE=1 DATA_DIR=gs://b/RACE MODEL_DIR=gs://b/race \
#     INIT_CHECKPOINT=gs://b/xlnet_large SPIECE=gs://b/spiece.model \
#     bash scripts/tpu/race.sh [more flags of run_race.py]
set -euo pipefail
. "$(dirname "$0")/common.sh"
need DATA_DIR MODEL_DIR INIT_CHECKPOINT SPIECE

on_tpu run_race.py --recipe="${RECIPE:-race_large_v2}" \
  --data_dir="$DATA_DIR" --model_dir="$MODEL_DIR" \
  --init_checkpoint="$INIT_CHECKPOINT" --spiece_model_file="$SPIECE" \
  --do_train --do_eval --iterations=500 --save_steps=1000 "$@"
