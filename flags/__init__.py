"""L4: absl flags, each file ending in one frozen options dataclass.

`import flags` rebinds absl's `flags`: write `from flags import app`.
"""

import common  # noqa: F401  before TensorFlow, as in every command
