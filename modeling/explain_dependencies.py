"""`python -m modeling.explain_dependencies`: what each objective can learn.

    python -m modeling.explain_dependencies            # the paper's New York
    python -m modeling.explain_dependencies \\
        --text="Thom Yorke is the singer of Radiohead" --targets=Thom,Yorke

Prints the objectives of BERT, XLNet and a left-to-right model for a choice of
targets, and every dependency of a target on one or two other tokens with who
covers it; over all orders the share of them that do, exactly.
"""

from flags import app, flag_values
from modeling.command_options import DependencyOptions
from modeling.explain import dependencies


def main() -> None:
    """The command."""
    options = flag_values.build(DependencyOptions)
    print(dependencies.parse(options.text, options.targets))


if __name__ == "__main__":
    flag_values.define(DependencyOptions)
    app.run(main)
