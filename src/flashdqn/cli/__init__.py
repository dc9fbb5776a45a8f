"""The command line: `main.py` dispatches, every command has its own file."""
