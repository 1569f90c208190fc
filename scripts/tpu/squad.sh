#!/usr/bin/env bash
# SQuAD on a Cloud TPU VM.
#   CREATE=1 TRAIN_FILE=gs://b/train-v2.0.json PREDICT_FILE=gs://b/dev-v2.0.json \
#     MODEL_DIR=gs://b/squad INIT_CHECKPOINT=gs://b/xlnet_large \
#     SPIECE=gs://b/spiece.model bash scripts/tpu/squad.sh [more flags]
set -euo pipefail
. "$(dirname "$0")/common.sh"
need TRAIN_FILE PREDICT_FILE MODEL_DIR INIT_CHECKPOINT SPIECE

on_tpu run_squad.py --recipe="${RECIPE:-squad_large_v2}" \
  --train_file="$TRAIN_FILE" --predict_file="$PREDICT_FILE" \
  --model_dir="$MODEL_DIR" --init_checkpoint="$INIT_CHECKPOINT" \
  --spiece_model_file="$SPIECE" --do_train --do_eval \
  --iterations=500 --save_steps=1000 "$@"
