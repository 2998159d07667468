"""Where every act but a modify call asks the guard before the native call: creations, registrations, postings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard import check
from rdmaqp.guard.policy import current

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.model.request import Request


def ask_guard(asked: Callable[[], Request]) -> None:
    """Judge the request that *asked* makes, and do by the policy in force (:mod:`rdmaqp.guard.policy`).

    Raises:
        GuardError: refused; the native call must not be made.
    """
    rules = current()
    if rules.mode != "off":
        rules.settle(check(asked()))
