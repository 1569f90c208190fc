#!/usr/bin/env bash
# Pretraining on a Cloud TPU VM. Builds nothing: make the records first with
# `python -m data.create_pretraining_data` and copy them to a bucket.
#   CREATE=1 DATA_DIR=gs://b/records MODEL_DIR=gs://b/large \
#     bash scripts/tpu/pretrain.sh --train_batch_size=64 [more flags of run_pretrain.py]
# The recipe's batch is for 1,024 cores: 8 rows of Large fit a v3 core.
set -euo pipefail
. "$(dirname "$0")/common.sh"
need DATA_DIR MODEL_DIR

on_tpu run_pretrain.py --recipe="${RECIPE:-pretrain_large_v2}" \
  --data_dir="$DATA_DIR" --model_dir="$MODEL_DIR" \
  --iterations=1000 --save_steps=10000 --max_save=10 "$@"
