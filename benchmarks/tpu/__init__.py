"""Plans of TPU jobs by the compiler, without a TPU."""
