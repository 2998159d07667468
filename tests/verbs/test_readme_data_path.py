"""The README's section on the data path is code that runs: each paragraph of it, on the null device."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from null_side import connected, rdmaqp, stub

if TYPE_CHECKING:
    from conftest import Null

README = Path(__file__).parents[2] / "README.md"


def blocks() -> list[str]:
    section = README.read_text().split("## The data path")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def as_written() -> list[Any]:
    one, _ = connected(max_send_wr=256, max_send_sge=2, size=128)
    stub(DROP=1)

    def create_cq(cqe: int, channel: rdmaqp.CompletionChannel) -> rdmaqp.CompletionQueue:
        """With one completion already in it."""
        cq = one.context.create_cq(cqe, channel)
        qp = one.pd.create_qp(cq)
        qp.connect(qp.endpoint(psn=1), one.qp.endpoint(psn=1))
        qp.send(one.mr)
        return cq

    scope: dict[str, Any] = {
        "rdmaqp": rdmaqp, "asyncio": asyncio, "qp": one.qp, "region": one.mr, "cq": one.cq,
        "addr": 0x1000, "length": 128, "rkey": 7,
        "device": SimpleNamespace(create_comp_channel=one.context.create_comp_channel, create_cq=create_cq),
    }  # fmt: skip
    posting, completing = blocks()
    exec(posting, scope)
    sent = sum(len(one.cq.poll(64)) for _ in range(3))
    for paragraph in completing.split("\n\n"):
        one.qp.post_sends(scope["records"])  # for what waits
        if "await" in paragraph:
            body = textwrap.indent(paragraph, "    ")
            exec(f"async def main():\n    global cq, batch\n{body}\n", scope)
            asyncio.run(scope["main"]())
        else:
            exec(paragraph, scope)
        while one.cq.poll(64):
            pass
    return [sent, len(scope["batch"]), scope["done"].count, scope["failed"].tolist(), one.qp.outstanding]


def test_the_data_path_as_the_readme_has_it(null: Null) -> None:
    """Of the posting block, the call, the two of the chain once each by post(), and the records are left to poll."""
    assert null.run(as_written) == [1 + 1 + 2 + 64, 1, 64, [], 0]


def test_the_section_is_of_a_page() -> None:
    assert 20 <= sum(len(block.splitlines()) for block in blocks()) <= 40
