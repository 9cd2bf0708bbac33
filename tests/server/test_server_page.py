"""docs/server.md tells the truth: every code, option, limit and metric is on it."""

from __future__ import annotations

import re
from pathlib import Path

from viewkeeper.cli.serve import serve
from viewkeeper.server.http_problems import CODES, KINDS
from viewkeeper.server.server_metrics import ServerMetrics
from viewkeeper.server.server_settings import ServerLimits

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()


def test_every_code_is_listed_with_its_status() -> None:
    problems = PAGE.split("## Problems")[1]
    listed: dict[str, str] = {}
    for statuses, codes in re.findall(r"^\| ([\dx, ]+) \| (.*) \|$", problems, re.MULTILINE):
        listed |= dict.fromkeys(re.findall(r"`([a-z-]+)`", codes), statuses)
    known = {code: status for status, code, _ in KINDS.values()} | {code: status for code, (status, _) in CODES.items()}
    assert set(listed) == set(known)
    for code, statuses in listed.items():
        assert str(known[code]) in statuses or (statuses == "5xx" and known[code] >= 500), code


def test_every_option_and_limit_is_listed() -> None:
    for option in serve.params:
        assert f"`{option.opts[0]}`" in PAGE, option.opts
    limits = ServerLimits()
    shown = (limits.body_bytes, limits.rows, limits.connections, limits.connections_per_client, limits.burst)
    for number in (*shown, limits.websocket_subscriptions):
        assert f"{number:,}" in PAGE
    for seconds in (limits.header_seconds, limits.body_seconds, limits.statement_seconds):
        assert f"{seconds:g} s" in PAGE
    assert f"| {limits.waiting} |" in PAGE
    assert f"| {limits.rate:g}, " in PAGE


def test_every_metric_is_listed() -> None:
    names = re.findall(r"^# TYPE (\w+) ", ServerMetrics().text().decode(), re.MULTILINE)
    for name in names:
        if not name.endswith("_created"):
            assert f"`{name}" in PAGE, name
