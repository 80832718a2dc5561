"""`python -m nacre`: the command line, also where the program `nacre` is not on the path."""

from .cli import main

main()
