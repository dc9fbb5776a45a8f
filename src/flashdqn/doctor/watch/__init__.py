"""The code that watches a script from the inside. It needs only the standard library, so it works in any
environment where the script works. It looks at torch only after the script has imported it.

It runs as a separate program (`python …/watch/__main__.py PLAN`), never as a part of flashdqn.
"""
