"""Run folders on disk: configuration, tables, checkpoints."""
