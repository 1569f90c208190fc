"""Command: run_pretrain.py with further values of --model_type, for studies.

    python -m studies.pretrain_variant --model_type=bert_pre_norm --data_dir=...

Its flags are those of run_pretrain.py. The further values are encoders that
differ from the released ones in one thing (`studies.bert_variants`). The other
commands do not read their folders.
"""

import dataclasses
import runpy

from modeling.encoders.registry import ENCODERS

# model_type -> the released kind, the class of its configuration
VARIANTS = {
    "bert_pre_norm": ("bert", "studies.bert_variants:PreNormBert"),
    "bert_untied": ("bert", "studies.bert_variants:UntiedBert"),
    "bert_half_words": ("bert", "studies.bert_variants:HalfWordsBert"),
    "bert_double_words": ("bert", "studies.bert_variants:DoubleWordsBert"),
    "bert_no_order": ("bert", "studies.bert_variants:NoOrderBert"),
    "bert_sinusoids": ("bert", "studies.bert_variants:SinusoidsBert"),
    "albert_sinusoids": ("albert", "studies.bert_variants:SinusoidsAlbert"),
}


def register() -> None:
    """Adds the rows of the variants to the encoders of this process."""
    for model_type, (base, config) in VARIANTS.items():
        row = dataclasses.replace(
            ENCODERS[base],
            model_type=model_type,
            config=config,
            model="studies.bert_variants:VariantModel",
            hugging_face="",
        )
        if model_type == "bert_untied":
            head = "studies.bert_variants:UntiedHead"
            row = dataclasses.replace(row, lm_head=head)
        ENCODERS[model_type] = row


def main() -> None:
    """Runs the command in this process."""
    register()
    runpy.run_module("run_pretrain", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
