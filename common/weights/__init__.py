"""Where weights come from, and the line that names them."""
