#!/usr/bin/env bash
# The table of docs/explanation/results/ten_tasks.md: pretrains a small model on novels, WikiText and
# the training texts of the tasks without their labels, then tunes ten tasks
# from its weights and from random ones, with few labels and with all.
#   DATA=folder OUT=folder bash scripts/results.sh
# DATA holds the public sets in their official layouts (glue/, trec/,
# ag_news_csv/, imdb/, squad/, race/, lm/); those of imdb/, race/ and lm/ are
# packed (.xz). Run again, it goes on where it stopped. OPTIONS is a study or its
# file, PRETRAIN_FLAGS are added to the pretraining's, WORKERS jobs run at a
# time, TASK_TEXTS are the tasks whose texts are read. RECIPE is that of the pretraining;
# MORE_TEXT is added to --input_glob, SOURCE_WEIGHTS are those of the builder.
# Pretraining continues for 4,000 steps on the texts of CONTINUED_TEXTS, where it
# names tasks ("imdb sst-2 yelp-5"), with CONTINUED_FLAGS behind the other flags.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?the folder of the public sets}" "${OUT:?a folder for the results}"
: "${PYTHON:=python}" "${OPTIONS:=results}"
: "${PRETRAIN_FLAGS:=}" "${WORKERS:=2}" "${RECIPE:=small_hours}"
: "${MORE_TEXT:=}" "${SOURCE_WEIGHTS:=}"
: "${CONTINUED_TEXTS:=}" "${CONTINUED_FLAGS:=}"
: "${TASK_TEXTS:=squad race imdb ag trec sst-2 cola sts-b rte mnli qnli qqp mrpc}"
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
for name in glue trec ag_news_csv squad yelp_review_full_csv; do
  ln -sfn "$DATA/$name" "$OUT/sets/$name"
done

SETS="$OUT/sets"
texts() { # folder, then tasks: a text of each, without labels
  local folder="$1" name from
  shift
  mkdir -p "$folder"
  for name in "$@"; do
    [ -s "$folder/$name.txt" ] && continue
    case "$name" in
    squad) from=(--train_file="$SETS/squad/train-v1.1.json") ;;
    imdb) from=(--data_dir="$SETS/aclImdb") ;;
    ag) from=(--data_dir="$SETS/ag_news_csv") ;;
    race) from=(--data_dir="$SETS/RACE") ;;
    trec) from=(--data_dir="$SETS/trec") ;;
    yelp-5) from=(--data_dir="$SETS/yelp_review_full_csv") ;;
    *) from=(--data_dir="$SETS/glue") ;;
    esac
    "$PYTHON" -m data.convert_task --task_name="$name" "${from[@]}" \
      --output_file="$folder/$name.txt"
  done
}
records() { # folder, --input_glob, then more flags
  local folder="$1" glob="$2"
  shift 2
  "$PYTHON" -m data.create_pretraining_data --output_dir="$folder" \
    --input_glob="$glob" --spiece_model_file="$OUT/spiece.model" \
    --seq_len=128 --reuse_len=64 --bi_data --dev_fraction=0.02 --mask_alpha=3 --max_span=1 "$@"
}
# shellcheck disable=SC2086 # several tasks
texts "$OUT/text" $TASK_TEXTS

if [ ! -s "$OUT/spiece.model" ]; then
  xz -dkc "$DATA/lm/wikitext-2/train.txt.xz" >"$OUT/wiki.train.tokens"
  "$PYTHON" -m data.convert_corpus --layout=book \
    --input_glob="$SETS/english_novels/*.txt" --output_file="$OUT/novels.txt"
  "$PYTHON" -m data.convert_corpus --layout=wikitext \
    --input_glob="$OUT/wiki.train.tokens" --output_file="$OUT/wikitext.txt"
  "$PYTHON" -m data.train_sentencepiece --model_prefix="$OUT/spiece" \
    --input_glob="$OUT/novels.txt,$OUT/wikitext.txt,$OUT/text/*.txt" \
    --vocab_size=8000 --input_sentence_size=200000
fi
records "$OUT/records" \
  "novels=$OUT/novels.txt,wiki=$OUT/wikitext.txt,tasks=$OUT/text/*.txt${MORE_TEXT:+,$MORE_TEXT}" \
  --source_weights="$SOURCE_WEIGHTS"
# shellcheck disable=SC2086 # several flags
"$PYTHON" run_pretrain.py --recipe="$RECIPE" --data_dir="$OUT/records" \
  --model_dir="$OUT/pretrain" --iterations=100 --save_steps=1000 \
  --eval_every=1000 --eval_steps=40 $PRETRAIN_FLAGS
START="$OUT/pretrain"
if [ -n "$CONTINUED_TEXTS" ]; then
  # shellcheck disable=SC2086 # several tasks
  texts "$OUT/continued_text" $CONTINUED_TEXTS
  records "$OUT/continued_records" "$OUT/continued_text/*.txt"
  # shellcheck disable=SC2086 # several flags
  "$PYTHON" run_pretrain.py --recipe="$RECIPE" --data_dir="$OUT/continued_records" \
    --init_checkpoint="$START" --model_dir="$OUT/continued" --iterations=100 \
    --save_steps=1000 --eval_every=1000 --eval_steps=40 $PRETRAIN_FLAGS \
    --train_steps=4000 --warmup_steps=200 $CONTINUED_FLAGS
  START="$OUT/continued"
fi
"$PYTHON" -m studies.run --study="$OPTIONS" --output_dir="$OUT/table" \
  --data_dir="$OUT/sets" --init_checkpoint="$START" --workers="$WORKERS"
