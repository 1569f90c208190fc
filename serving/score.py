"""Log-probability of texts.

    python -m serving.score --checkpoint=DIR --text="..." --order=random \\
        --num_orders=8

One JSON object per text: the log-probability under every order asked for,
their mean, and the perplexity per token. Pretraining predicts the last part of
an order only, so the first tokens, seen from little context, are scored by a
model that has seldom seen such a question: --context_chars gives the model a
beginning that is not scored.
"""

import json

import numpy as np

from flags import app, lm_flags
from serving import limits
from serving.generation.language_model import load_model
from serving.generation.scoring import Scorer


def main() -> None:
    """The command."""
    options, model_options = lm_flags.score_from_flags()
    texts = [
        limits.check_text(t, f"--text[{i}]", options.max_chars)
        for i, t in enumerate(options.text)
    ]
    lm = load_model(model_options)
    scorer = Scorer(lm.model, options.max_seq_length, options.memory_len)
    count = options.num_orders if options.order == "random" else 1
    for text in texts:
        ids, starts, _ = lm.tokenizer.encode_with_offsets(text)
        context = int(np.searchsorted(starts, options.context_chars))
        scores = [
            scorer.score(
                np.asarray(ids, np.int32),
                options.order,
                options.seed + i,
                context,
            )
            for i in range(count)
        ]
        totals = [s.total for s in scores]
        scored = max(len(scores[0].log_probs), 1)
        answer = {
            "tokens": len(ids),
            "scored_tokens": len(scores[0].log_probs),
            "order": options.order,
            "log_probs": [round(t, 5) for t in totals],
            "mean_log_prob": round(float(np.mean(totals)), 5),
            "perplexity": float(np.exp(-np.mean(totals) / scored)),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    lm_flags.define_score()
    app.run(main)
