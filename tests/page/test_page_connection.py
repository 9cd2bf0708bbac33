"""A server that goes away and comes back, one that asks for a token, and one without any table."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

import viewkeeper as vk
from tests.page.conftest import Opening, Served, served
from tests.page.test_page import is_live, shown_rows

BROWSERS_OWN = ("WebSocket connection to", "net::ERR_CONNECTION_REFUSED", "net::ERR_EMPTY_RESPONSE", "net::ERR_CONNECTION_RESET", "status of 401")
"""What Chromium itself logs when a server does not answer or refuses."""


@pytest.mark.parametrize(("size", "scheme", "kill"), [("phone", "dark", True), ("desktop", "light", False)])
def test_survives_a_restart(template: Path, tmp_path: Path, window: Opening, size: str, scheme: str, kill: bool) -> None:
    with served(template, tmp_path) as server:
        opened = window(server.url + "#/relation/revenue", size, scheme)
        page = opened.page
        expect(page.locator(".contents .grid")).to_be_visible()
        is_live(page)
        assert shown_rows(page) == server.rows("revenue")
        server.sql("INSERT INTO orders VALUES (50, 1, 'open', 1)")
        expect(page.locator("tr.inserted")).to_have_count(1)
        before = shown_rows(page)
        server.stop(kill=kill)
        expect(page.get_by_text("No connection to the server.")).to_be_visible()
        expect(page.locator(".state")).to_contain_text("disconnected")
        assert shown_rows(page) == before  # what was there stays readable
        with vk.connect(server.path, engine="sail") as db:  # another process goes on meanwhile
            db.sql("INSERT INTO orders VALUES (51, 2, 'open', 2); INSERT INTO orders VALUES (52, 3, 'open', 3)")
        server.start()
        is_live(page)
        expect(page.get_by_text("No connection to the server.")).to_have_count(0)
        expect(page.locator(".state-epoch")).to_contain_text(str(server.get("tables")["epoch"]))
        expect(page.locator("main [role=status]").first).to_contain_text(f"Epoch {server.get('tables')['epoch']}")
        assert shown_rows(page) == server.rows("revenue") != before
        server.sql("DELETE FROM orders WHERE id = 50")
        expect(page.locator("tr.deleted")).to_have_count(1)
        assert shown_rows(page) == server.rows("revenue")
        opened.check(*BROWSERS_OWN)


def test_asks_for_a_token(template: Path, tmp_path: Path, window: Opening) -> None:
    with served(template, tmp_path, "a-token-for-the-page") as server:
        opened = window(server.url, "phone", "light")
        page = opened.page
        dialog = page.get_by_role("dialog", name="This server asks for a token")
        expect(dialog).to_be_visible()
        expect(page.get_by_label("Token")).to_be_focused()
        page.keyboard.type("not the right one")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_contain_text("refused")
        page.get_by_label("Token").fill("a-token-for-the-page")
        page.keyboard.press("Enter")
        is_live(page)
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("table", name="Views").get_by_role("link", name="revenue")).to_be_visible()
        assert "a-token-for-the-page" not in page.evaluate("JSON.stringify(localStorage) + location.href")
        page.reload()  # kept in this tab
        is_live(page)
        opened.check(*BROWSERS_OWN)


def test_empty_database(tmp_path: Path, window: Opening) -> None:
    with vk.connect(tmp_path / "lake", engine="sail"):
        pass
    server = Served(tmp_path / "lake")
    server.start()
    try:
        opened = window(server.url, "phone", "dark")
        page = opened.page
        expect(page.get_by_text("This database is empty")).to_be_visible()
        page.goto(server.url + "#/graph")
        expect(page.get_by_text("Nothing depends on anything yet")).to_be_visible()
        page.goto(server.url + "#/rules")
        expect(page.get_by_text("No rules yet")).to_be_visible()
        page.goto(server.url + "#/commits")
        expect(page.get_by_text("No commits yet")).to_be_visible()
        page.goto(server.url + "#/sql")
        page.get_by_label("SQL statements").fill("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#committed")).to_be_visible()
        page.goto(server.url + "#/")
        expect(page.get_by_role("table", name="Views").get_by_role("link", name="v", exact=True)).to_be_visible()
        opened.check()
    finally:
        server.stop()
