"""Collectors that do not wait: worker processes that play by themselves (docs/async.md)."""
