"""After fork, a device and all of it are dead in the child, which says so, and untouched in the parent."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from null_side import Side, calls, connected, rdmaqp, said, stub

if TYPE_CHECKING:
    from conftest import Null


def in_child(function: Callable[[], Any]) -> Any:
    """What *function* returns in a forked child, which must end cleanly."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writer, json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        came = json.loads(file.read())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return came


def uses(one: Side) -> dict[str, Callable[[], Any]]:
    chain = one.qp.chain(rdmaqp.Send(one.mr))
    channel = one.channel
    assert channel
    return {
        "send": lambda: one.qp.send(one.mr), "recv": lambda: one.qp.recv(one.mr), "chain": chain.post,
        "run": lambda: chain.run(1), "poll": one.cq.poll, "wait": lambda: one.cq.wait(timeout=1),
        "poll_into": lambda: one.cq.poll_into(rdmaqp.Completions(4)), "state": lambda: one.qp.state,
        "modify": lambda: one.qp.modify(qp_state="ERR"), "drain": one.qp.drain, "reap": one.qp.reap,
        "pd": one.context.alloc_pd, "mr": lambda: one.mr.buffer, "event": lambda: channel.get_event(1),
        "async": one.context.async_events.poll, "query": one.context.port(1).query,
        "register": lambda: one.pd.alloc_mr(8),
    }  # fmt: skip


def tried(function: Callable[[], Any]) -> list[str]:
    try:
        function()
    except BaseException as error:
        return [said(error)["type"], said(error)["text"]]
    return ["nothing", ""]


def forked() -> dict[str, Any]:
    first, second = connected(events=True)
    second.qp.recv(second.mr)
    ready = uses(first)
    before = len(calls())

    def child() -> dict[str, Any]:
        said = {name: tried(use) for name, use in ready.items()}
        native = len(calls()) - before
        for thing in (first.qp, first.mr, first.cq, first.pd, first.context, second.qp):
            thing.close()
        with rdmaqp.open() as again:
            fresh = again.create_cq(4).poll()
        return {"said": said, "native": native, "closed": len(calls("ibv_destroy_qp", "ibv_dereg_mr")), "fresh": fresh}

    came = in_child(child)
    first.qp.send(first.mr)
    return {"child": came, "parent": [len(first.cq.wait(timeout=20)), len(second.cq.wait(timeout=20))]}


def test_everything_is_dead_in_the_child_says_why_and_nothing_is_called(null: Null) -> None:
    came = null.run(forked)
    for name, (kind, text) in came["child"]["said"].items():
        assert kind == "ClosedError", name
        assert "forked" in text, (name, text)
        assert "Open the device again" in text, name
    assert (came["child"]["native"], came["child"]["closed"], came["child"]["fresh"]) == (0, 0, [])
    assert came["parent"] == [1, 1]


def while_locked() -> dict[str, Any]:
    """Another thread is within C, holding the locks, at the time of the fork."""
    first, _ = connected()
    stub(HIDE=1)
    waiting = threading.Thread(target=lambda: tried(lambda: first.cq.wait(timeout=2)))
    waiting.start()
    came = [in_child(lambda: [*tried(first.cq.poll), *tried(first.cq.close)]) for _ in range(5)]
    waiting.join()
    return {"came": came}


def test_a_lock_that_another_thread_holds_does_not_stop_the_child(null: Null) -> None:
    for kind, text, closing, _ in null.run(while_locked)["came"]:
        assert (kind, closing) == ("ClosedError", "nothing")
        assert "forked" in text
