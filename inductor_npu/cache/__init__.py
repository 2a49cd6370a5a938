"""The compile cache: what was compiled once is never compiled again (docs/cache.md)."""
