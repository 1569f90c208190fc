"""L0: errors and files, used by every package and importing none of them."""

import os

# TensorFlow reads this when it is loaded: its lines would bury the
# lines of the commands. Set it to 0 to see everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
