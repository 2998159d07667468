"""The README's program does what the README says: both ends, as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_api_in_20_lines(tmp_path: Path) -> None:
    section = README.read_text().split("## The API in 20 lines")[1]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    assert 15 <= len(code.strip().splitlines()) <= 25
    program = tmp_path / "two_ends.py"
    program.write_text(code)
    command = [sys.executable, str(program)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Interpreters start slowly in an emulated guest, and a client waits ten seconds for its server.
    time.sleep(8)
    client = subprocess.run([*command, "127.0.0.1"], capture_output=True, text=True, check=False, timeout=120)
    said, errors = server.communicate(timeout=120)
    assert (client.returncode, server.returncode) == (0, 0), client.stderr + errors
    assert said == client.stdout == f"{b'hello'.ljust(64)!r}\n"
