"""The native half: devices, memory, completions, queue pairs. :mod:`rdmaqp.verbs._native` alone touches C."""
