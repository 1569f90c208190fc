"""Command: who may see whom in a factorization order, and why.

    python -m modeling.explain_permutation --text="This is a sentence" \\
        --order=3,2,4,1 --output=order.png
"""

from common import figures
from common.errors import UserError
from flags import app, flag_values
from modeling.command_options import ExplainOptions

# Flag that chooses -> its values -> flags that no other value follows.
_FOLLOWERS = {
    "split": {("pieces",): ("spiece_model_file",)},
    "view": {("joint", "split"): ("stream", "n_layer", "memory", "partial")},
}


def main() -> None:
    """Prints the masks and factors of an order; draws them on request."""
    from modeling.explain import graph, permutation

    options = flag_values.build(ExplainOptions)
    for choice, followers in _FOLLOWERS.items():
        flag_values.check_followed(choice, getattr(options, choice), followers)
    if options.split == "words":
        tokens = options.text.split()
    else:
        from data.text.opening import open_tokenizer

        if not options.spiece_model_file:
            raise UserError("--split=pieces needs --spiece_model_file")
        tokenizer = open_tokenizer(options.spiece_model_file)
        tokens = tokenizer.encode_pieces(options.text)
    explanation = permutation.explain(tokens, options.order)
    if options.view == "masks":
        print(explanation)
        if options.output:
            permutation.draw(explanation, options.output)
    else:
        arrows = graph.arrows(
            options.order,
            options.n_layer,
            options.memory,
            options.stream,
            options.partial,
        )
        shown = graph.views(arrows, options.order, options.view)
        print(graph.lines(shown))
        if options.output:
            graph.draw(shown, tokens, options.output)
    if options.output:
        print(f"\ndrawn: {options.output}")
        if line := figures.note(tokens):
            print(line)


if __name__ == "__main__":
    flag_values.define(ExplainOptions)
    app.run(main)
