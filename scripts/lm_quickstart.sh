#!/usr/bin/env bash
# A left-to-right language model in a few minutes: raw text -> bytes ->
# Transformer-XL -> evaluations with growing memory -> text.
#   bash scripts/lm_quickstart.sh [output folder, default lm_quickstart_output]
# Run again, it reuses what is there and goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT="${1:-lm_quickstart_output}"
. scripts/setup.sh
setup requirements.txt

run() {
  printf '\n$ python'
  printf ' %s' "$@"
  printf '\n'
  "$PY" "$@"
}

STEPS="${STEPS:-1200}"

say "1/5 raw text: documentation of the installed Python packages"
run -m data.demo_corpus --output_dir="$OUT/corpus" --max_megabytes=4
head -c -100000 "$OUT/corpus/pretrain.txt" > "$OUT/train.txt"
tail -c 100000 "$OUT/corpus/pretrain.txt" > "$OUT/valid.txt"

say "2/5 token streams of bytes"
run -m data.create_lm_data --train_glob="$OUT/train.txt" \
  --valid_glob="$OUT/valid.txt" --unit=byte --output_dir="$OUT/bytes"

say "3/5 training"
run run_lm.py --data_dir="$OUT/bytes" --model_dir="$OUT/model" \
  --n_layer=4 --d_model=128 --n_head=4 --d_head=32 --d_inner=512 \
  --dropout=0.0 --seq_len=64 --mem_len=64 --train_batch_size=16 \
  --train_steps="$STEPS" --learning_rate=2e-3 \
  --warmup_steps=$((STEPS / 10)) --iterations=50 --save_steps=300 \
  --eval_steps=20

say "4/5 the same weights with growing memory"
for memory in 0 32 64 128 256; do
  run run_lm.py --data_dir="$OUT/bytes" --model_dir="$OUT/model" --mode=eval \
    --eval_mem_len="$memory" --eval_seq_len=64 --eval_clamp_len=128 \
    --eval_batch_size=8
done

say "5/5 text"
run -m serving.generate --checkpoint="$OUT/model" --prompt="Returns the " \
  --max_new_tokens=200 --num_samples=2 --temperature=0.7 --mem_len=256
