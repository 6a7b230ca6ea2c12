"""Format, lint, types and layers, side by side: all that can be said about the code without running it.

All tests are collected, too, while types are checked on the other core. pytest keeps what it compiled: the workers of a
run, which begin together, would each compile all of them.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKS = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "lint": ["ruff", "check", "--quiet", "."],
    "types": ["mypy", "--no-error-summary"],
    "layers": ["lint-imports", "--no-logo"],
    "collection": ["pytest", "--collect-only", "--quiet", "--quiet", "--no-header"],
    "rocksdb opens": ["python", "tools/lint_rocksdb.py", "."],
}


def _run(command: list[str]) -> tuple[int, str, float]:
    program = str(Path(sys.executable).parent / command[0])
    started = time.monotonic()
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - started


def main() -> int:
    failed = 0
    with ThreadPoolExecutor() as pool:
        for name, (code, output, seconds) in zip(CHECKS, pool.map(_run, CHECKS.values()), strict=True):
            sys.stdout.write(f"check {name:<14} {'ok' if code == 0 else 'FAILED'}  {seconds:.1f} s\n")
            if code != 0:
                failed += 1
                sys.stdout.write(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
