"""`python -m flashdqn`."""

from flashdqn.cli.main import main

main()
