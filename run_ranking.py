"""Ranks documents: BM25, cosine, K-NRM on frozen vectors, a cross-encoder.

    python run_ranking.py --collection=cranfield --data_dir=DATA/cranfield \\
        --init_checkpoint=xlnet_cased_L-12_H-768_A-12 --model_dir=OUT

See docs/guides/tasks/ranking.md.
"""

import dataclasses

from common import locks
from flags import app
from flags.tasks import finetune_flags, ranking_flags


def main() -> None:
    """Reads the flags and runs the stages."""
    parts = ranking_flags.from_flags()

    # These load TensorFlow: flags are read and checked before.
    from data.text.opening import open_tokenizer
    from serving.export import export_model
    from training.finetuning import preflight, sources
    from training.finetuning.ranking import run

    options = run.RankingOptions(*parts)
    tokenizer = None
    if options.ranker.ranker != "bm25":
        finetune = options.finetune
        said = finetune_flags.features_from_flags()
        spiece = sources.find_spiece(finetune, said.spiece_model_file)
        text = sources.find_text(finetune, spiece, said.text)
        tokenizer = open_tokenizer(spiece, text)
        # Rankers bring their own check of what was trained.
        preflight.check_places(dataclasses.replace(finetune, do_train=True))
    with locks.held(options.finetune.run.model_dir):
        run.RankingRun(options, tokenizer, export=export_model)()


if __name__ == "__main__":
    ranking_flags.define()
    app.run(main)
