"""What watches a script from the inside. It needs nothing but the standard library, so that it works in any
environment that the script works in; torch is looked at only once the script has imported it.

It runs as a separate program (`python …/watch/__main__.py PLAN`), never as a part of flashdqn.
"""
