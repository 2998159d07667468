"""The second host: serves connections for ever, and says what it received of each."""

from __future__ import annotations

import subprocess
import sys
import threading

import rdmaqp


def main() -> None:
    command = [sys.executable, "-m", "rdmaqp", "pingpong", "-n", "20", "--timeout", "60", "--json"]
    # Until it has gone well: the client tries three times.
    answering = threading.Thread(target=lambda: any(subprocess.run(command, stdout=2).returncode == 0 for _ in "123"))
    answering.start()
    with rdmaqp.Listener(18600, "") as listener:
        print("serving", flush=True)
        while True:
            exchange = listener.accept(on_stranger=lambda error: print("stranger:", error, flush=True))
            try:
                with rdmaqp.Connection(exchange, timeout=60, patience=60) as connection:
                    numbers = [int.from_bytes(message[:8], "big") for message in connection]
                    in_order = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
                    print(f"received {len(numbers)} in order: {in_order}", flush=True)
            except rdmaqp.RdmaqpError as error:
                print("error:", str(error).replace("\n", " | "), flush=True)


if __name__ == "__main__":
    sys.exit(main())
