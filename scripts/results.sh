#!/usr/bin/env bash
# The table of docs/results.md: pretrains a small model on novels and WikiText,
# then tunes ten tasks from its weights and from random ones, with few labels
# and with all.
#   DATA=folder OUT=folder bash scripts/results.sh
# DATA holds the public sets in their official layouts (glue/, trec/,
# ag_news_csv/, imdb/, squad/, race/, lm/); those of imdb/, race/ and lm/ are
# packed (.xz). Run again, it goes on where it stopped. OPTIONS is a file of
# tasks, PRETRAIN_FLAGS are added to the pretraining's, WORKERS jobs run at a
# time.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?the folder of the public sets}" "${OUT:?a folder for the results}"
: "${PYTHON:=python}" "${OPTIONS:=benchmarks/results_table.toml}"
: "${PRETRAIN_FLAGS:=}" "${WORKERS:=2}"
mkdir -p "$OUT/sets"
DATA="$(cd "$DATA" && pwd)"

unpack() { # archive and the folder in it; whole, or not there
  [ -d "$OUT/sets/$2" ] && return
  rm -rf "$OUT/unpacking"
  mkdir "$OUT/unpacking"
  tar xJf "$1" -C "$OUT/unpacking"
  mv "$OUT/unpacking/$2" "$OUT/sets/$2"
}
unpack "$DATA/lm/english_novels.tar.xz" english_novels
unpack "$DATA/imdb/aclImdb.tar.xz" aclImdb
unpack "$DATA/race/RACE.tar.xz" RACE
for name in glue trec ag_news_csv squad; do
  ln -sfn "$DATA/$name" "$OUT/sets/$name"
done

TEXT="$OUT/novels.txt,$OUT/wikitext.txt"
if [ ! -s "$OUT/spiece.model" ]; then
  xz -dkc "$DATA/lm/wikitext-2/train.txt.xz" >"$OUT/wiki.train.tokens"
  "$PYTHON" -m data.convert_corpus --layout=book \
    --input_glob="$OUT/sets/english_novels/*.txt" \
    --output_file="$OUT/novels.txt"
  "$PYTHON" -m data.convert_corpus --layout=wikitext \
    --input_glob="$OUT/wiki.train.tokens" --output_file="$OUT/wikitext.txt"
  "$PYTHON" -m data.train_sentencepiece --input_glob="$TEXT" \
    --model_prefix="$OUT/spiece" --vocab_size=8000 --input_sentence_size=200000
fi
"$PYTHON" -m data.create_pretraining_data --input_glob="$TEXT" \
  --spiece_model_file="$OUT/spiece.model" --output_dir="$OUT/records" \
  --seq_len=128 --reuse_len=64 --bi_data --dev_fraction=0.02 \
  --mask_alpha=3 --max_span=1
# shellcheck disable=SC2086 # several flags
"$PYTHON" run_pretrain.py --recipe=small_hours --data_dir="$OUT/records" \
  --model_dir="$OUT/pretrain" --iterations=100 --save_steps=1000 \
  --eval_every=1000 --eval_steps=40 $PRETRAIN_FLAGS
"$PYTHON" -m benchmarks.results_table --output_dir="$OUT/table" \
  --data_dir="$OUT/sets" --init_checkpoint="$OUT/pretrain" \
  --options="$OPTIONS" --workers="$WORKERS"
