"""Names of heads -> the signatures of their exported models."""

from common.errors import UserError
from serving.signatures import sequence as signatures
from serving.signatures.choice import choice_signatures
from serving.signatures.language_model import lm_signatures
from serving.signatures.sequence import Context, Signature
from serving.signatures.span import span_signatures

BUILDERS = {
    "pretraining": lm_signatures,
    "classification": signatures.sequence_signatures,
    "multi_label": signatures.sequence_signatures,
    "regression": signatures.sequence_signatures,
    "span": span_signatures,
    "multiple_choice": choice_signatures,
    "token_classification": signatures.token_signatures,
}


def build(context: Context) -> dict[str, Signature]:
    """All signatures of `context.spec.head`.

    Raises:
      UserError: the head cannot be exported.
    """
    head = context.spec.head
    if head not in BUILDERS:
        raise UserError(
            f"head must be one of {sorted(BUILDERS)}, received {head!r}"
        )
    return BUILDERS[head](context)
