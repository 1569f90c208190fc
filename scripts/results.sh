#!/usr/bin/env bash
# The table of docs/results.md: pretrains a small model on novels and WikiText,
# then fine-tunes every task from its weights and from random ones.
#   DATA=folder OUT=folder bash scripts/results.sh
# DATA holds the public sets in their official layouts (glue/, trec/,
# ag_news_csv/, imdb/, squad/, race/, lm/), packed or not. Run again, it goes on
# where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?the folder of the public sets}" "${OUT:?a folder for the results}"
: "${PYTHON:=python}" "${PRETRAIN_STEPS:=2000}"
mkdir -p "$OUT"

if [ ! -s "$OUT/wikitext.txt" ]; then
  mkdir -p "$OUT/novels"
  tar xJf "$DATA/lm/english_novels.tar.xz" -C "$OUT/novels"
  xz -dkc "$DATA/lm/wikitext-2/train.txt.xz" >"$OUT/wiki.train.tokens"
  "$PYTHON" -m data.convert_corpus --layout=book \
    --input_glob="$OUT/novels/*/*.txt" \
    --output_file="$OUT/novels.txt"
  "$PYTHON" -m data.convert_corpus --layout=wikitext \
    --input_glob="$OUT/wiki.train.tokens" --output_file="$OUT/wikitext.txt"
fi
TEXT="$OUT/novels.txt,$OUT/wikitext.txt"
"$PYTHON" -m data.train_sentencepiece --input_glob="$TEXT" \
  --model_prefix="$OUT/spiece" --vocab_size=8000 --input_sentence_size=200000
"$PYTHON" -m data.create_pretraining_data --input_glob="$TEXT" \
  --spiece_model_file="$OUT/spiece.model" --output_dir="$OUT/records" \
  --seq_len=128 --reuse_len=64 --bi_data --dev_fraction=0.02
"$PYTHON" run_pretrain.py --data_dir="$OUT/records" --model_dir="$OUT/pretrain" \
  --n_layer=4 --d_model=192 --n_head=4 --d_head=48 --d_inner=768 \
  --mem_len=64 --dropout=0.0 --dropatt=0.0 --train_batch_size=16 \
  --train_steps="$PRETRAIN_STEPS" --learning_rate=1e-3 --warmup_steps=100 \
  --iterations=50 --save_steps=500 --eval_steps=8

both() { # name, command and flags
  local name=$1
  shift
  for start in pretrained random; do
    local from=(--init_checkpoint="$OUT/pretrain")
    if [ "$start" = random ]; then
      from=(--model_config_path="$OUT/pretrain/xlnet_config.json")
    fi
    [ -s "$OUT/$name-$start/eval_dev.json" ] && continue
    "$PYTHON" "$@" "${from[@]}" --spiece_model_file="$OUT/spiece.model" \
      --model_dir="$OUT/$name-$start" --warmup_steps=50 --save_steps=0 \
      --iterations=100 --dropout=0.1 --dropatt=0.1 --do_train --do_eval
  done
}
CLASSIFIER=(run_classifier.py --train_batch_size=32 --eval_batch_size=64
  --learning_rate=3e-4)
both trec "${CLASSIFIER[@]}" --task_name=trec --data_dir="$DATA/trec" \
  --max_seq_length=32 --train_steps=500
both ag "${CLASSIFIER[@]}" --task_name=ag --data_dir="$DATA/ag_news_csv" \
  --max_seq_length=64 --train_steps=400
both sst2 "${CLASSIFIER[@]}" --task_name=sst-2 --data_dir="$DATA/glue" \
  --max_seq_length=48 --train_steps=800
both cola "${CLASSIFIER[@]}" --task_name=cola --data_dir="$DATA/glue" \
  --max_seq_length=32 --train_steps=500
both rte "${CLASSIFIER[@]}" --task_name=rte --data_dir="$DATA/glue" \
  --max_seq_length=128 --train_steps=250
both stsb "${CLASSIFIER[@]}" --task_name=sts-b --data_dir="$DATA/glue" \
  --max_seq_length=64 --train_steps=500
[ -d "$OUT/aclImdb" ] || tar xJf "$DATA/imdb/aclImdb.tar.xz" -C "$OUT"
both imdb "${CLASSIFIER[@]}" --task_name=imdb --data_dir="$OUT/aclImdb" \
  --max_seq_length=256 --length_buckets=auto --train_steps=250
SQUAD=(run_squad.py --train_batch_size=16 --eval_batch_size=32
  --learning_rate=3e-4 --max_seq_length=192 --doc_stride=64
  --length_buckets=auto)
both squad1 "${SQUAD[@]}" --train_file="$DATA/squad/train-v1.1.json" \
  --predict_file="$DATA/squad/dev-v1.1.json" --train_steps=500
both squad2 "${SQUAD[@]}" --train_file="$DATA/squad/train-v2.0.json" \
  --predict_file="$DATA/squad/dev-v2.0.json" --train_steps=500
[ -d "$OUT/RACE" ] || tar xJf "$DATA/race/RACE.tar.xz" -C "$OUT"
both race run_race.py --data_dir="$OUT/RACE" --max_seq_length=192 \
  --max_qa_length=48 --train_batch_size=8 --eval_batch_size=16 \
  --learning_rate=1e-4 --train_steps=300
grep -H . "$OUT"/*/eval_dev.json
