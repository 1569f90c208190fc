#!/usr/bin/env bash
# Left-to-right language models in a few minutes: raw text -> bytes and pieces ->
# Transformer-XL -> evaluations with growing memory -> text -> an export, asked.
#   bash scripts/lm_quickstart.sh [output folder, default lm_quickstart_output]
# Run again, it reuses what is there and goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT="${1:-lm_quickstart_output}"
. scripts/setup.sh
setup requirements.txt

run() {
  printf '\n$ python'
  printf ' %q' "$@"
  printf '\n'
  "$PY" "$@"
}

STEPS="${STEPS:-1200}"

say "1/6 raw text: documentation of the installed Python packages"
run -m data.demo_corpus --output_dir="$OUT/corpus" --max_megabytes=4
head -c -100000 "$OUT/corpus/pretrain.txt" > "$OUT/train.txt"
tail -c 100000 "$OUT/corpus/pretrain.txt" > "$OUT/valid.txt"

say "2/6 token streams of bytes and of 2,000 SentencePiece pieces"
run -m data.train_sentencepiece --input_glob="$OUT/train.txt" \
  --model_prefix="$OUT/spiece" --vocab_size=2000
streams() { # unit, more flags
  run -m data.create_lm_data --train_glob="$OUT/train.txt" \
    --valid_glob="$OUT/valid.txt" --output_dir="$OUT/$1" --unit="$1" "${@:2}"
}
streams byte
streams piece --vocab_file="$OUT/spiece.model"

say "3/6 training"
for unit in byte piece; do
  run run_lm.py --data_dir="$OUT/$unit" --model_dir="$OUT/$unit-model" \
    --n_layer=4 --d_model=128 --n_head=4 --d_head=32 --d_inner=512 \
    --dropout=0.0 --seq_len=64 --mem_len=64 --train_batch_size=16 \
    --train_steps="$STEPS" --learning_rate=2e-3 \
    --warmup_steps=$((STEPS / 10)) --iterations=50 --save_steps=300 \
    --eval_steps=20
done

# Training saw distances up to 127; an evaluation clamps those beyond and may
# have a longer memory. A unit's own perplexity says nothing about another's.
say "4/6 the same weights with growing memory"
for unit in byte piece; do
  for memory in 0 32 64 128; do
    run run_lm.py --data_dir="$OUT/$unit" --model_dir="$OUT/$unit-model" \
      --mode=eval --eval_mem_len="$memory" --eval_seq_len=64 \
      --eval_clamp_len=127 --eval_batch_size=8 |
      tee "$OUT/$unit-$memory.txt"
  done
done
printf '\nunit   memory  perplexity  bits per byte\n'
for unit in byte piece; do
  for memory in 0 32 64 128; do
    awk -v row="$unit $memory" '
      { value[$2] = $3 }
      END { split(row, name, " ")
            printf "%-5s %7d %11.2f %14.3f\n", name[1], name[2],
              value["token_perplexity"], value["bits_per_byte"] }' \
      "$OUT/$unit-$memory.txt"
  done
done

say "5/6 text"
for unit in byte piece; do
  run -m serving.generate --checkpoint="$OUT/$unit-model" \
    --prompt="Returns the " --max_new_tokens=200 --num_samples=2 \
    --temperature=0.7 --mem_len=256
done

say "6/6 an export that reads raw text, and what it says"
[ -e "$OUT/export/1" ] || run -m serving.export --model_dir="$OUT/piece-model" \
  --task=lm --output_dir="$OUT/export"
run -m serving.predict --saved_model_dir="$OUT/export" \
  --text="Returns the number of rows." --text="Rows the number returns of."
