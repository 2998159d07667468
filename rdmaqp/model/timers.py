"""Timers that travel as codes: the acknowledge timeout and the RNR NAK timer, to and from seconds.

Sources: InfiniBand Architecture Specification, local ACK timeout (4.096 µs × 2**code) and RNR NAK timer field;
Linux ``include/rdma/ib_verbs.h``, ``enum ib_rnr_timeout``.
"""

from __future__ import annotations

#: Milliseconds of each ``min_rnr_timer`` code. Code 0 is the longest, not the shortest.
RNR_TIMER_MS: tuple[float, ...] = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip

_TICK = 4.096e-6


def timeout_seconds(timeout: int) -> float | None:
    """The seconds of a ``timeout`` code 1…31; ``None`` for 0, which never gives up.

    Raises:
        ValueError: *timeout* is not 0…31.
    """
    if not 0 <= timeout <= 31:
        raise ValueError(f"timeout is 0…31, not {timeout}")
    return None if timeout == 0 else _TICK * (1 << timeout)


def timeout_code(seconds: float) -> int:
    """The smallest ``timeout`` code that lasts at least *seconds* (up to 8796 s, code 31).

    Raises:
        ValueError: *seconds* is not positive, or longer than code 31 lasts.
    """
    if seconds <= 0:
        raise ValueError(f"a timeout lasts longer than {seconds} s; code 0 means for ever and is given as such")
    for code in range(1, 32):
        if _TICK * 2**code >= seconds:
            return code
    raise ValueError(f"the longest timeout is {_TICK * (1 << 31):.0f} s (code 31), not {seconds} s")


def rnr_timer_ms(min_rnr_timer: int) -> float:
    """The milliseconds of a ``min_rnr_timer`` code 0…31.

    Raises:
        ValueError: *min_rnr_timer* is not 0…31.
    """
    if not 0 <= min_rnr_timer <= 31:
        raise ValueError(f"min_rnr_timer is 0…31, not {min_rnr_timer}")
    return RNR_TIMER_MS[min_rnr_timer]


def rnr_timer_code(milliseconds: float) -> int:
    """The code of the shortest RNR NAK timer that lasts at least *milliseconds* (up to 655.36 ms, code 0).

    Raises:
        ValueError: *milliseconds* is not positive, or longer than any code.
    """
    if milliseconds <= 0:
        raise ValueError(f"an RNR timer lasts longer than {milliseconds} ms")
    longest_last: list[int] = [*range(1, 32), 0]
    for code in longest_last:
        if RNR_TIMER_MS[code] >= milliseconds:
            return code
    raise ValueError(f"the longest RNR timer is 655.36 ms (code 0), not {milliseconds} ms")
