"""Finding a Java that Apache Spark can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

NEEDED = 17


@dataclass(frozen=True)
class Java:
    """A Java found on this machine."""

    path: str
    version: int


def find_java() -> Java | None:
    """The Java that Spark would use (JAVA_HOME, then PATH), if there is one."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not path or not os.path.exists(path):
        return None
    try:
        output = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output.stderr + output.stdout)
    if not found:
        return None
    major = int(found.group(1))
    return Java(path, int(found.group(2) or 0) if major == 1 else major)


def has_java() -> bool:
    """Whether a Java new enough for Apache Spark is found."""
    java = find_java()
    return java is not None and java.version >= NEEDED
