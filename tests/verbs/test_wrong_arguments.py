"""Arguments of the wrong type, through every public method: what is given, where, and what is expected."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, connected, error_of, rdmaqp

if TYPE_CHECKING:
    from conftest import Null


def wrong_calls() -> list[list[str]]:
    """The call, and what it raises; nothing of it may reach the library."""
    one, other = connected()
    qp, pd, cq, context = one.qp, one.pd, one.cq, one.context
    here, there = qp.endpoint(psn=1), other.qp.endpoint(psn=2)
    channel = context.create_comp_channel()
    before = len(calls())
    tried: dict[str, Any] = {
        "open(5)": lambda: rdmaqp.open(5),
        "create_cq('x')": lambda: context.create_cq("x"),
        "create_cq(1.5)": lambda: context.create_cq(1.5),
        "create_cq(4, pd)": lambda: context.create_cq(4, pd),
        "port(None)": lambda: context.port(None),
        "create_qp(cq, 'FOO')": lambda: pd.create_qp(cq, "FOO"),
        "create_qp(7)": lambda: pd.create_qp(7),
        "create_qp(max_wr)": lambda: pd.create_qp(cq, max_sendwr=4),
        "create_qp(type)": lambda: pd.create_qp(cq, qp_type=1.5),
        "reg_mr(5)": lambda: pd.reg_mr(5),
        "reg_mr(access)": lambda: pd.reg_mr(bytearray(4), "LOCAL_WRITE"),
        "alloc_mr('4k')": lambda: pd.alloc_mr("4k"),
        "create_ah({})": lambda: pd.create_ah({}),
        "connect({})": lambda: qp.connect(here, {}),
        "connect(tiemout)": lambda: qp.connect(here, there, tiemout=4),
        "connect(timeout)": lambda: qp.connect(here, there, timeout="4"),
        "endpoint(sgid_index)": lambda: qp.endpoint(psn=1, sgid_index=3),
        "endpoint(psn)": lambda: qp.endpoint(psn="1"),
        "endpoint(gid)": lambda: qp.endpoint(psn=1, gid="::1"),
        "modify('INIT')": lambda: qp.modify("INIT"),
        "modify(mask)": lambda: qp.modify(rdmaqp.QPAttr(), mask="STATE"),
        "query('STATE')": lambda: qp.query("STATE"),
        "wait(timeout)": lambda: cq.wait(timeout="1"),
        "safe_modify_qp": lambda: rdmaqp.safe_modify_qp(qp, rdmaqp.QPAttr(), device=7),
        "bring_up": lambda: rdmaqp.bring_up(here, {}),
        "check": lambda: rdmaqp.check({"attr": {}}),
        "pkey": lambda: context.port(1).pkey("0"),
        "get_event": lambda: channel.get_event("soon"),
        "attach_mcast": lambda: qp.attach_mcast("ff0e::1", None),
        "swap": lambda: rdmaqp.Exchange.swap(object(), {}, {}, 5.0),
        "connect(host)": lambda: rdmaqp.Exchange.connect(7),
    }  # fmt: skip
    said = [[name, f"{type(error).__name__}: {error}"] for name, call in tried.items() if (error := error_of(call))]
    assert len(calls()) == before, calls()[before:]
    return said


def test_each_wrong_argument_is_named_with_what_was_given_and_what_is_expected(null: Null) -> None:
    assert dict(null.run(wrong_calls)) == {
        "open(5)": "TypeError: open(): name is 5, an int; expected a str or None",
        "create_cq('x')": "TypeError: create_cq(): cqe is 'x', a str; expected an int",
        "create_cq(1.5)": "TypeError: create_cq(): cqe is 1.5, a float; expected an int",
        "create_cq(4, pd)": "TypeError: create_cq(): channel is <protection domain on null0>, a ProtectionDomain; "
                            "expected a CompletionChannel or None",
        "port(None)": "TypeError: port(): num is None; expected an int",
        "create_qp(cq, 'FOO')": "TypeError: create_qp(): recv_cq is 'FOO', a str; expected a CompletionQueue or None",
        "create_qp(7)": "TypeError: create_qp(): send_cq is 7, an int; expected a CompletionQueue or None",
        "create_qp(max_wr)": "TypeError: create_qp() has no argument 'max_sendwr'; did you mean 'max_send_wr'?",
        "create_qp(type)": "TypeError: create_qp(): qp_type is 1.5, a float; expected a QPType or a str",
        "reg_mr(5)": "TypeError: reg_mr(): memory is 5, an int; expected a bytes-like object or DLPack",
        "reg_mr(access)": "TypeError: reg_mr(): access is 'LOCAL_WRITE', a str; expected an int",
        "alloc_mr('4k')": "TypeError: alloc_mr(): length is '4k', a str; expected an int",
        "create_ah({})": "TypeError: create_ah(): address is {}, a dict; expected an AddressVector",
        "connect({})": "TypeError: connect(): remote is {}, a dict; expected an Endpoint",
        "connect(tiemout)": "TypeError: connect() has no argument 'tiemout'; did you mean 'timeout'?",
        "connect(timeout)": "TypeError: connect(): timeout is '4', a str; expected an int or None",
        "endpoint(sgid_index)": "TypeError: endpoint() has no argument 'sgid_index'; did you mean 'gid_index'?",
        "endpoint(psn)": "TypeError: endpoint(): psn is '1', a str; expected an int",
        "endpoint(gid)": "TypeError: endpoint(): gid is '::1', a str; expected a GID or None",
        "modify('INIT')": "TypeError: modify(): attr is 'INIT', a str; expected a QPAttr",
        "modify(mask)": "TypeError: modify(): mask is 'STATE', a str; expected an int",
        "query('STATE')": "TypeError: query(): mask is 'STATE', a str; expected an int",
        "wait(timeout)": "TypeError: wait(): timeout is '1', a str; expected a number or None",
        "safe_modify_qp": "TypeError: safe_modify_qp(): device is 7, an int; expected a Context or a str or None",
        "bring_up": "TypeError: bring_up(): remote is {}, a dict; expected an Endpoint or None",
        "check": "TypeError: check(): request is {'attr': {}}, a dict; expected a Request",
        "pkey": "TypeError: pkey(): index is '0', a str; expected an int",
        "get_event": "TypeError: get_event(): timeout is 'soon', a str; expected a number or None",
        "attach_mcast": "TypeError: attach_mcast(): lid is None; expected an int",
        "swap": "TypeError: swap(): local is {}, a dict; expected an Endpoint",
        "connect(host)": "TypeError: connect(): host is 7, an int; expected a str",
    }  # fmt: skip


#: On the hot path (with all of the data path), which may look for itself, as modify does; or their values are the
#: guard's to judge, which says more than a type.
UNCHECKED = {"modify", "poll", "poll_into", "wait_into", "span", "to_init", "to_rtr", "to_rts", "queue_pair"}

DATA_PATH = {"rdmaqp.verbs.work_queues", "rdmaqp.verbs.receiving", "rdmaqp.verbs.keeping"}


@pytest.mark.parametrize("kind", [
    "Context", "ProtectionDomain", "MemoryRegion", "CompletionQueue", "CompletionChannel", "QueuePair", "QueuePairs",
    "Port",
])  # fmt: skip
def test_every_public_method_with_an_argument_is_checked(kind: str) -> None:
    public = getattr(rdmaqp, kind)
    for name, member in inspect.getmembers(public, inspect.isfunction):
        is_elsewhere = member.__module__ in DATA_PATH or not member.__module__.startswith("rdmaqp")
        if is_elsewhere or name.startswith("_") or name in UNCHECKED:
            continue
        if len(inspect.signature(member).parameters) < 2:
            continue
        assert hasattr(member, "__wrapped__"), f"{kind}.{name}"
