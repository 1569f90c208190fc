#!/usr/bin/env bash
# A classification or regression task on a Cloud TPU VM.
#   CREATE=1 TASK=mnli DATA_DIR=gs://b/MNLI MODEL_DIR=gs://b/mnli \
#     INIT_CHECKPOINT=gs://b/xlnet_large SPIECE=gs://b/spiece.model \
#     bash scripts/tpu/classifier.sh [more flags of run_classifier.py]
set -euo pipefail
. "$(dirname "$0")/common.sh"
need DATA_DIR MODEL_DIR INIT_CHECKPOINT SPIECE

on_tpu run_classifier.py --task_name="${TASK:-mnli}" \
  --recipe="${RECIPE:-mnli_large_v2}" \
  --data_dir="$DATA_DIR" --model_dir="$MODEL_DIR" \
  --init_checkpoint="$INIT_CHECKPOINT" --spiece_model_file="$SPIECE" \
  --do_train --do_eval --iterations=500 --save_steps=1000 "$@"
