"""The kernel oracle: each call is made with no guard before it, and the guard's answer is compared with the kernel's.

A call (:mod:`.calls`) is made from lists: :mod:`.masks`, :mod:`.values`, :mod:`.addresses`. :mod:`.bench` makes it on
a queue pair that was brought to its state natively, and asks ``ibv_query_qp`` what became of it. :mod:`.judge`
compares. What guard and kernel may disagree about stands in :mod:`.kinds`, each kind with its reason.
"""
