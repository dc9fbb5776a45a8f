"""How `check_env` looks at an environment: one answer at a time, and whole plays."""
