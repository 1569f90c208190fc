"""Which tokens of a stream become rows, targets and orders."""
