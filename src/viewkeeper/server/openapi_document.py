"""The OpenAPI document of the calls, as docs/openapi.json has it: `python -m viewkeeper.server.openapi_document`."""

from __future__ import annotations

import json
import sys

from viewkeeper.server.application import bare_app


def openapi_text() -> str:
    """The document as text."""
    return json.dumps(bare_app().openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
