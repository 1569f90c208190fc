#!/usr/bin/env bash
# The whole path on a machine with only Python and git: raw text -> vocabulary
# -> TFRecords -> pretraining -> fine-tuning -> SavedModel -> prediction.
#   bash scripts/quickstart.sh [output folder, default quickstart_output]
# Run again, it reuses what is there and goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT="${1:-quickstart_output}"
. scripts/setup.sh
setup requirements.txt

run() {
  printf '\n$ python'
  printf ' %q' "$@"
  printf '\n'
  "$PY" "$@"
}

PRETRAIN_STEPS="${PRETRAIN_STEPS:-800}"
FINETUNE_STEPS="${FINETUNE_STEPS:-200}"
FEW_LABELS=200

say "1/7 raw text: documentation of the installed Python packages"
run -m data.demo_corpus --output_dir="$OUT/corpus"

say "2/7 vocabulary"
run -m data.train_sentencepiece --input_glob="$OUT/corpus/pretrain.txt" \
  --model_prefix="$OUT/spiece" --vocab_size=8000

say "3/7 TFRecords: lanes, factorization orders, targets"
run -m data.create_pretraining_data --input_glob="$OUT/corpus/pretrain.txt" \
  --spiece_model_file="$OUT/spiece.model" --output_dir="$OUT/records" \
  --seq_len=128 --reuse_len=64 --bi_data --dev_fraction=0.03 \
  --mask_alpha=3 --max_span=1

say "4/7 pretraining: two-stream permutation language model with memory"
run run_pretrain.py --recipe=small_minutes --data_dir="$OUT/records" \
  --model_dir="$OUT/pretrain" --train_steps="$PRETRAIN_STEPS" \
  --warmup_steps=$((PRETRAIN_STEPS / 40)) \
  --iterations=50 --save_steps=300 --eval_steps=8

CLASSIFIER=(run_classifier.py --task_name=tsv
  --data_dir="$OUT/corpus/classification"
  --spiece_model_file="$OUT/spiece.model" --max_seq_length=64
  --train_steps="$FINETUNE_STEPS" --learning_rate=3e-4
  --warmup_steps=$((FINETUNE_STEPS / 8)))

say "5/7 fine-tuning from the pretrained weights, export"
FINE_TUNE=(--train_batch_size=32 --do_train --do_eval --do_predict)
if [ ! -e "$OUT/classifier/export/1/saved_model.pb" ]; then
  FINE_TUNE+=(--do_export) # each export is a new version
fi
run "${CLASSIFIER[@]}" --init_checkpoint="$OUT/pretrain" \
  --model_dir="$OUT/classifier" "${FINE_TUNE[@]}"

say "6/7 what pretraining adds with $FEW_LABELS labels: two starts, three seeds each"
FEW=(--train_examples="$FEW_LABELS" --num_seeds=3 --train_batch_size=16
  --do_train --do_eval)
run "${CLASSIFIER[@]}" "${FEW[@]}" --init_checkpoint="$OUT/pretrain" \
  --model_dir="$OUT/few_labels/pretrained"
# 0.02 is the better start for weights that are only tuned.
sed 's/"init_std": [0-9.]*/"init_std": 0.02/' "$OUT/pretrain/xlnet_config.json" \
  > "$OUT/random_config.json"
run "${CLASSIFIER[@]}" "${FEW[@]}" \
  --model_config_path="$OUT/random_config.json" \
  --model_dir="$OUT/few_labels/random"

say "7/7 a prediction from the SavedModel alone"
TEXT="Solve the linear least-squares problem with bounds on the variables."
rm -f "$OUT/prediction.jsonl" # an earlier run's: answers replace no file
run -m serving.predict --saved_model_dir="$OUT/classifier/export" \
  --text="$TEXT" --output_file="$OUT/prediction.jsonl"

say "report"
run -m scripts.quickstart_report --output_dir="$OUT"
