"""Small faults that are put into the package one by one, and what runs the tests against each.

`make mutants` ends with status 0 if every fault of the folder `faults` fails a test that it names.
"""
