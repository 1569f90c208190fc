"""Studies: the ablation, results, encoders, language models. Not installed."""
