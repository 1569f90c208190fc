"""`python -m modeling.explain_permutation`: who may see whom, and why."""

from common.errors import UserError
from flags import app, explain_flags
from modeling import explain


def main() -> None:
    """Prints the masks and factors of an order; draws them on request."""
    options = explain_flags.from_flags()
    if options.split == "words":
        tokens = options.text.split()
    else:
        from data.text.tokenizer import Tokenizer

        if not options.spiece_model_file:
            raise UserError("--split=pieces needs --spiece_model_file")
        tokenizer = Tokenizer(options.spiece_model_file)
        tokens = tokenizer.encode_pieces(options.text)
    explanation = explain.explain(tokens, options.order)
    print(explanation)
    if options.output:
        explain.draw(explanation, options.output)
        print(f"\ndrawn: {options.output}")


if __name__ == "__main__":
    explain_flags.define()
    app.run(main)
