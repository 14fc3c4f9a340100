"""What experiments and benchmarks share: problems, contestants, measurements on disk, tables and figures."""
