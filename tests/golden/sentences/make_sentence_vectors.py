"""Writes what sentence-transformers gives for hard texts: whole vectors.

Needs torch and sentence-transformers (requirements-bench.txt), from the
repository's folder: `python -m tests.golden.sentences.make_sentence_vectors FOLDER FILE`.
FOLDER is all-MiniLM-L6-v2's (requirements-released.txt), FILE an .npz.
"""

import sys

import numpy as np

from tests.helpers import released


def main(folder: str, file: str) -> None:
    """Vectors one by one: a batch's padding changes the last digits."""
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    vectors = [
        model.encode([text], show_progress_bar=False)[0]
        for text in released.SENTENCE_TEXTS
    ]
    np.savez_compressed(file, vectors=np.asarray(vectors, np.float32))
    print(f"sentence-transformers {sentence_transformers.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
