"""The models that tests, benchmarks and the corpus compile."""
