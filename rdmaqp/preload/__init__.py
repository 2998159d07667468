"""Any program under the guard: the shim that carries its modify calls here (``_c/``), and who judges them."""
