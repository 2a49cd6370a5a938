"""Programs that show the package at work; run one with `python -m examples.NAME`."""
