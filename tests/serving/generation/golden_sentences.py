"""Where the vectors of sentence encoders are."""

# Text -> the first numbers of its vector, by sentence-transformers 6.2.0 with
# torch 2.13.0.
GOLDEN = {
    "A short text.": [0.0045765, 0.159795, 0.0154098, 0.0316675],
    "The na\u00efve caf\u00e9 owner in \u0130stanbul paid 12,000 francs.": [
        0.045275,
        0.0722384,
        -0.0444951,
        0.0690161,
    ],
    "": [-0.1188384, 0.0482988, -0.002548, -0.0110112],
    "word " * 400: [-0.0081237, -0.095586, -0.0386731, 0.049662],
    "\u6771\u4eac\u306f": [0.0818355, 0.0837969, 0.0539495, -0.043153],
}
