"""Proof by doing: a script is run again with a cure put in from outside, in turns with the untouched script."""
