"""Ask for known vulnerabilities of the versions in constraints.txt, where somebody can be asked.

    python tools/audit.py

Fails with a list if there are any.  Without `pip-audit`, or where its service does not answer, which it
calls "no known vulnerabilities", this says so in a line and is content.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SECONDS = 300  # for all packages; the service answers one after the other


def ask(pins: list[str]) -> list[dict[str, Any]] | None:
    """What pip-audit says of every package; None if it cannot ask."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text("\n".join(pins) + "\n")
        call = [sys.executable, "-m", "pip_audit", "-r", str(wanted), "--no-deps", "--disable-pip"]
        try:
            done = subprocess.run(
                [*call, "-f", "json", "--timeout", "5"], capture_output=True, text=True, timeout=SECONDS
            )
            packages = json.loads(done.stdout)["dependencies"]
        except (subprocess.TimeoutExpired, ValueError):
            return None
    return packages if any("vulns" in package for package in packages) else None


def main(pins: list[str]) -> int:
    """Print what was found in a line, or a line for each vulnerability; the exit code."""
    packages = None if ask(pins[:1]) is None else ask(pins)  # where nobody answers, one question is enough
    if packages is None:
        print("audit: skipped, pip-audit is missing or its service does not answer")
        return 0
    found = [(package, vulnerability) for package in packages for vulnerability in package.get("vulns", [])]
    for package, vulnerability in found:
        fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        print(f"audit: {package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    known = sum("vulns" in package for package in packages)
    print(f"audit: {known} of {len(pins)} packages known to the service, {len(found)} vulnerabilities")
    return int(bool(found))


if __name__ == "__main__":
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    sys.exit(main([line for line in lines if "==" in line and not line.startswith("#")]))
