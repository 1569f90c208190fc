"""Names of heads -> the signatures of their exported models."""

from common.errors import UserError
from common.heads import get
from common.references import resolve
from serving.signatures.sequence import Context, Signature


def build(context: Context) -> dict[str, Signature]:
    """All signatures of `context.spec.head`; UserError where it has none."""
    head = get(context.spec.head)
    if not head.signatures:
        raise UserError(f"a model with the head `{head.name}` has no export")
    return resolve(head.signatures)(context)
