"""`python -m flashdqn`."""

from flashdqn.cli import main

main()
