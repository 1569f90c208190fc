"""Names of heads -> the signatures of their exported models."""

from common.errors import UserError
from common.heads import get
from common.references import resolve
from serving.signatures.sequence import Context, Signature


def build(context: Context) -> dict[str, Signature]:
    """All signatures of `context.spec.head`.

    Raises:
      UserError: there is no such head, or it has no signatures.
    """
    head = get(context.spec.head)
    if not head.signatures:
        raise UserError(f"a model with the head `{head.name}` has no export")
    return resolve(head.signatures)(context)
