"""Advice in the words of the library that a script uses: its own functions and flags, at the user's own line."""
