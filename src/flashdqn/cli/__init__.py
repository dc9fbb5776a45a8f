"""The command line: `main.py` dispatches, every command has a file of its own."""
