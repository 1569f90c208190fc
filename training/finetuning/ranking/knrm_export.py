"""A fitted K-NRM as a model with its encoder, for `serving.export`."""

import numpy as np

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.text.tokenizer import Tokenizer
from modeling.encoders.registry import spec_of
from modeling.heads.kernel_ranking import KernelRankingModel
from training.finetuning.ranking.kernel_features import FeatureMaker, idf
from training.finetuning.ranking.knrm import Learned
from training.finetuning.ranking.options import RankerOptions
from training.finetuning.ranking.vectors import EncoderVectors

HEAD = "ranking"


def build(
    learned: Learned,
    maker: FeatureMaker,
    options: RankerOptions,
    seed: int = 0,
) -> KernelRankingModel:
    """The model of one fold and seed.

    Raises:
      UserError: the vectors are no encoder's.
    """
    source = maker.vectors
    if not isinstance(source, EncoderVectors):
        raise UserError(
            f"--do_export needs --vectors=encoder, received {options.vectors}"
        )
    config = source.encoder.config
    layer = int(learned.layer[seed])
    model = KernelRankingModel(
        config,
        maker.kernels.mu,
        maker.kernels.sigma,
        source.layers[layer],
        options.with_candidate_score,
    )
    for ours, theirs in zip(
        model.encoder.variables, source.encoder.variables, strict=True
    ):
        ours.assign(theirs)
    model.kernel_weights.assign(learned.w[seed])
    model.kernel_bias.assign(learned.b[seed])
    if options.center:
        model.kernel_center.assign(maker.mean[layer, 0])
    if maker.counts is not None:
        counts, documents = maker.counts
        values = [
            idf(counts.get(piece, 0), documents)
            for piece in range(config.vocab_size)
        ]
        model.kernel_piece_weights.assign(np.array(values, np.float32))
    return model


def spec(
    tokenizer: Tokenizer, options: RankerOptions, model_type: str
) -> TaskSpec:
    """task.json of the export."""
    return TaskSpec(
        task_name="ranking",
        head=HEAD,
        labels=(),
        max_seq_length=options.max_doc_length + 2,
        text=tokenizer.settings,
        spiece_sha256=tokenizer.sha256,
        data_options={
            "ranker": "knrm",
            "max_query_length": options.max_query_length,
            "max_doc_length": options.max_doc_length,
            "layout": spec_of(model_type).capabilities.layout,
        },
    )
