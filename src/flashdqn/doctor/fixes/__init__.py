"""Patches by machine: changes of the source that fit exactly, tested on a copy before anybody sees them."""
