"""Names of heads -> the signatures of their exported models."""

from common.heads import get
from common.references import resolve
from serving.signatures.sequence import Context, Signature


def build(context: Context) -> dict[str, Signature]:
    """All signatures of `context.spec.head`.

    Raises:
      UserError: there is no such head.
    """
    return resolve(get(context.spec.head).signatures)(context)
