"""What programs and the kernel print when a queue pair fails, read back into requests and causes.

The messages are data, a row each, by who prints them: :mod:`.rows_nccl`, :mod:`.rows_nvshmem`, :mod:`.rows_ucx`,
:mod:`.rows_mpi`, :mod:`.rows_perftest`, :mod:`.rows_rdma_core`, :mod:`.rows_programs` (storage, RPC, frameworks),
:mod:`.rows_kernel`, :mod:`.rows_drivers`, :mod:`.rows_linux` (what in the kernel uses RDMA), :mod:`.rows_cm` for the
connection manager's words, and :mod:`.rows_any` for all other programs. :mod:`.words` and :mod:`.dumps` read what they
hold, :mod:`.reader` joins lines to failures, :mod:`.explain` asks the judge.
"""
