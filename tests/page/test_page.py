"""What a person does on the page, on a phone and on a desktop, light and dark."""

from __future__ import annotations

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.page.conftest import WAIT, Opening, Served

Look = tuple[str, str]

_ids = itertools.count(1000)
expect.set_options(timeout=WAIT)


def shown_rows(page: Page) -> list[list[str]]:
    """The rows of the table on the page that are there, not those that are marked as deleted."""
    lines = page.locator(".contents .grid tbody tr:not(.deleted)").all()
    return sorted(line.locator("td:not(.gutter):not(.filler)").all_inner_texts() for line in lines)


def write_sql(page: Page, text: str) -> None:
    """Replaces the text of the editor."""
    editor = page.get_by_label("SQL statements")
    editor.click()
    editor.fill(text)


def is_live(page: Page) -> None:
    expect(page.locator(".state.live")).to_be_visible()


def test_overview_has_tables_and_views(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url, *look)
    page = opened.page
    is_live(page)
    views = page.get_by_role("table", name="Views")
    for name in ("revenue", "no_orders", "open_orders", "reachable"):
        expect(views.get_by_role("link", name=name, exact=True)).to_be_visible()
    orders = page.get_by_role("table", name="Tables").get_by_role("row").filter(has_text="orders")
    before = next(each["rows"] for each in server.get("tables")["tables"] if each["name"] == "orders")
    expect(orders).to_contain_text(str(before))
    commit = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 1)")
    expect(orders).to_contain_text(str(before + 1))
    expect(orders).to_contain_text(str(commit["epoch"]))
    expect(page.locator(".state-epoch")).to_contain_text(str(commit["epoch"]))
    opened.check()


def test_view_changes_before_ones_eyes(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/relation/revenue", *look)
    page = opened.page
    expect(page.locator(".contents .grid")).to_be_visible()
    is_live(page)
    before = server.rows("revenue")
    assert shown_rows(page) == before
    commit = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 10)")
    expect(page.locator("tr.inserted")).to_have_count(1)
    expect(page.locator("tr.deleted")).to_have_count(1)
    # Not by color alone: a sign that is seen, and a word that is heard.
    assert page.locator("tr.inserted .gutter").inner_text().split() == ["+", "inserted"]
    assert page.locator("tr.deleted .gutter").inner_text().split() == ["−", "deleted"]
    expect(page.locator("main [role=status]").first).to_contain_text(f"Epoch {commit['epoch']} changed this")
    assert shown_rows(page) == server.rows("revenue") != before
    assert server.rows("revenue", commit["epoch"] - 1) == before
    page.get_by_role("tab", name="Changes").click()
    first = page.locator(".changes > li").first
    expect(first).to_contain_text(f"Epoch {commit['epoch']}")
    expect(first.locator("tr.inserted")).to_have_count(1)
    opened.check()


def test_every_aspect_of_a_view(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/relation/revenue", *look)
    page = opened.page
    page.get_by_role("tab", name="Contents").focus()
    detail = server.get("views/revenue")
    for tab, text in (
        ("Changes", "Epoch"),
        ("Definition", "GROUP BY c.region"),
        ("Analysis", detail["analysis"].splitlines()[0]),
        ("Plan", detail["plan"].splitlines()[0]),
    ):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=tab)).to_be_focused()
        expect(page.get_by_role("tabpanel")).to_contain_text(text)
    opened.check()


def test_preview_then_commit(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/sql", *look)
    page = opened.page
    epoch = server.get("tables")["epoch"]
    order, customer = next(_ids), next(_ids)
    write_sql(
        page,
        f"INSERT INTO orders VALUES ({order}, 2, 'open', 950);\nINSERT INTO customers VALUES ({customer}, 'New', 'Asia')",
    )
    page.keyboard.press("Control+Shift+Enter")
    preview = page.locator(".preview")
    expect(preview).to_contain_text("nothing is committed yet")
    expect(preview).to_contain_text("1 assertion would be violated")
    expect(preview).to_contain_text("950.00")
    expect(preview).to_contain_text("remind would fire")
    for name in ("orders", "customers", "revenue", "no_orders", "reminders"):
        expect(preview.locator("summary").filter(has=page.get_by_text(name, exact=True))).to_have_count(1)
    assert server.get("tables")["epoch"] == epoch
    page.get_by_role("button", name="Commit this").click()
    expect(page.get_by_role("heading", name=re.compile("Committed as epoch"))).to_be_visible()
    expect(page.locator(".result")).to_contain_text("fired")
    expect(page.locator(".result")).to_contain_text("Where the time went")
    expect(page.locator(".result .times li")).not_to_have_count(0)
    assert server.get("tables")["epoch"] == epoch + 1
    server.sql(f"DELETE FROM orders WHERE id = {order}; DELETE FROM customers WHERE id = {customer}")
    opened.check()


def test_refused_statement_says_where(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/sql", *look)
    page = opened.page
    write_sql(page, "SELECT *\nFROM no_such_table")
    page.keyboard.press("Control+Enter")
    failure = page.get_by_role("alert")
    expect(failure).to_contain_text("no_such_table")
    expect(failure).to_contain_text("Line 2")
    expect(page.locator(".cm-lintRange-error")).to_have_text("no_such_table")
    epoch = server.get("tables")["epoch"]
    write_sql(page, f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', -5)")
    page.keyboard.press("Control+Enter")
    expect(failure).to_contain_text("amounts_positive")
    assert server.get("tables")["epoch"] == epoch
    opened.check("status of 4")  # the browser logs refused requests by itself


def test_completion_knows_names_and_keywords(server: Served, window: Opening) -> None:
    opened = window(server.url + "#/sql")
    page = opened.page
    is_live(page)
    expect(page.locator(".side .name").first).to_be_visible()
    page.get_by_label("SQL statements").click()
    offered = page.locator(".cm-tooltip-autocomplete")
    page.keyboard.type("SELECT * FROM reven", delay=15)
    expect(offered.get_by_text("revenue", exact=True)).to_be_visible()
    page.wait_for_timeout(200)  # until then Enter is a new line: nobody chooses so fast
    page.keyboard.press("Enter")
    page.keyboard.type(" r WHERE r.reg", delay=15)
    expect(offered.get_by_text("region", exact=True)).to_be_visible()
    page.wait_for_timeout(200)
    page.keyboard.press("Enter")
    expect(page.get_by_label("SQL statements")).to_have_text("SELECT * FROM revenue r WHERE r.region")
    page.keyboard.press("Control+a")
    page.keyboard.type("CREATE MATER", delay=15)
    expect(offered.get_by_text("MATERIALIZED", exact=True)).to_be_visible()
    opened.check()


def test_commit_runs_through_the_graph(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/graph", *look)
    page = opened.page
    is_live(page)
    expect(page.locator("[data-node=revenue]")).to_be_visible()
    page.evaluate(
        """() => {
            window.steps = [];
            const svg = document.querySelector(".flow-svg");
            const note = () => window.steps.push(svg.dataset.epoch + ":" + svg.dataset.passed);
            new MutationObserver(note).observe(svg, { attributes: true, attributeFilter: ["data-epoch", "data-passed"] });
        }"""
    )
    commit = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 500)")
    epoch = commit["epoch"]
    expect(page.locator(f".flow-svg[data-epoch='{epoch}'][data-passed='3/3']")).to_be_visible()
    steps = [each for each in page.evaluate("window.steps") if each.startswith(f"{epoch}:")]
    assert list(dict.fromkeys(steps)) == [f"{epoch}:1/3", f"{epoch}:2/3", f"{epoch}:3/3"]
    assert page.locator("[data-edge='orders>revenue']").text_content() == "+1"
    assert page.locator("[data-edge='revenue>large_regions']").text_content() == "+1 −1"
    expect(page.locator("[data-node=revenue]")).to_have_attribute("aria-label", re.compile("1 inserted, 1 deleted"))
    expect(page.locator(".run .times")).to_contain_text("large_regions")
    # By keyboard: along the edges, then into the view.
    page.locator("[data-node=orders]").focus()
    for _ in range(6):
        if page.evaluate("document.activeElement.dataset.node") == "large_regions":
            break
        page.keyboard.press("ArrowRight")
    page.locator("[data-node=revenue]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.node") == "large_regions"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("revenue")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    opened.check()


def test_without_motion_the_run_is_at_its_end_at_once(server: Served, window: Opening) -> None:
    opened = window(server.url + "#/graph", motion="reduce")
    page = opened.page
    is_live(page)
    expect(page.locator("[data-node=revenue]")).to_be_visible()
    page.evaluate(
        """() => {
            window.steps = [];
            const svg = document.querySelector(".flow-svg");
            new MutationObserver(() => window.steps.push(svg.dataset.passed)).observe(svg, { attributes: true });
        }"""
    )
    commit = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 5)")
    expect(page.locator(f".flow-svg[data-epoch='{commit['epoch']}']")).to_be_visible()
    assert set(page.evaluate("window.steps")) == {"3/3"}
    opened.check()


def test_scrubs_through_time(server: Served, window: Opening, look: Look) -> None:
    first = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 2, 'open', 3)")["epoch"]
    second = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 4)")["epoch"]
    opened = window(server.url + "#/relation/revenue", *look)
    page = opened.page
    expect(page.locator(".contents .grid")).to_be_visible()
    is_live(page)
    slider = page.get_by_role("slider", name="Epoch")
    slider.focus()
    for epoch in (second - 1, second - 2):
        page.keyboard.press("ArrowLeft")
        expect(page.locator("main [role=status]").first).to_contain_text(f"As it was at epoch {epoch}")
        assert shown_rows(page) == server.rows("revenue", epoch)
    page.get_by_role("button", name="Next change").click()
    expect(page.locator("main [role=status]").first).to_contain_text(f"As it was at epoch {first}")
    expect(page.locator("tr.inserted")).to_have_count(1)
    assert shown_rows(page) == server.rows("revenue", first)
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"epoch {first}, 1 inserted, 1 deleted"))
    page.reload()  # the address has the epoch
    expect(page.locator("main [role=status]").first).to_contain_text(f"As it was at epoch {first}")
    # A commit in the meantime does not disturb the past; going live shows it.
    server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 3, 'open', 6)")
    assert shown_rows(page) == server.rows("revenue", first)
    page.get_by_role("button", name="Live").click()
    expect(page.locator("main [role=status]").first).to_contain_text(re.compile("Live|Epoch"))
    assert shown_rows(page) == server.rows("revenue")
    opened.check()


def test_edges_come_and_go_with_their_epoch(server: Served, window: Opening, look: Look) -> None:
    opened = window(server.url + "#/relation/reachable?tab=edges", *look)
    page = opened.page
    is_live(page)
    expect(page.locator(".edges-svg .spot")).not_to_have_count(0)
    links = page.locator(".edges-svg path.link")
    expect(links).to_have_count(len(server.rows("reachable")))
    server.sql("INSERT INTO flights VALUES ('LIS', 'MAD')")
    expect(page.locator("path.link.inserted")).to_have_count(3)
    expect(page.locator(".link-mark.inserted").first).to_have_text("+")
    commit = server.sql("DELETE FROM flights WHERE src = 'LIS'")
    expect(page.locator("path.link.deleted")).to_have_count(3)
    expect(page.locator(".link-mark.deleted").first).to_have_text("−")
    expect(page.locator("figcaption")).to_contain_text(f"by epoch {commit['epoch']}")
    page.get_by_role("button", name="Previous change").click()
    expect(page.locator("path.link.inserted")).to_have_count(3)
    opened.check()


def test_rules_firings_assertions(server: Served, window: Opening, look: Look) -> None:
    order, customer = next(_ids), next(_ids)
    commit = server.sql(f"INSERT INTO customers VALUES ({customer}, 'Di', 'Asia')")
    server.sql(f"INSERT INTO orders VALUES ({order}, 1, 'open', 999)")
    opened = window(server.url + "#/rules", *look)
    page = opened.page
    expect(page.locator("#item-remind")).to_contain_text("last fired in epoch")
    firings = page.get_by_role("table", name="Firings, latest first")
    expect(firings.get_by_role("row").nth(1)).to_contain_text(str(commit["epoch"]))
    expect(page.locator("#item-amounts_positive")).to_contain_text("holds")
    small = page.locator("#item-small")
    expect(small).to_contain_text("violated by 1 row")
    expect(small.get_by_role("table")).to_contain_text("999.00")
    server.sql(f"DELETE FROM orders WHERE id = {order}")
    expect(small).to_contain_text("holds")
    opened.check()


def test_where_a_commits_time_went(server: Served, window: Opening, look: Look) -> None:
    epoch = server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 8)")["epoch"]
    opened = window(server.url + f"#/commits/{epoch}", *look)
    page = opened.page
    expect(page.get_by_role("heading", name=f"Epoch {epoch}")).to_be_visible()
    times = page.locator(".times")
    for name in ("revenue", "large_regions"):
        expect(times.locator("li").filter(has=page.get_by_text(name, exact=True))).to_contain_text(re.compile(r"\d m?s"))
    expect(times.locator(".bar-fill").first).to_be_visible()
    opened.check()


@pytest.mark.parametrize("address", ["", "#/graph", "#/sql", "#/rules", "#/commits", "#/relation/revenue", "#/relation/reachable?tab=edges", "#/relation/revenue?tab=changes", "#/relation/revenue?tab=definition"])
def test_fits_and_has_no_serious_findings(server: Served, window: Opening, look: Look, address: str) -> None:
    server.sql(f"INSERT INTO orders VALUES ({next(_ids)}, 1, 'open', 1)")
    opened = window(server.url + address, *look)
    page = opened.page
    is_live(page)
    expect(page.locator(".loading")).to_have_count(0)
    page.wait_for_timeout(300)  # what fades in is there
    found = Axe().run(page).response["violations"]
    serious = [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, serious
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    opened.check()


def test_theme_switch(server: Served, window: Opening) -> None:
    opened = window(server.url)
    page = opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    switch = page.get_by_role("button", name=re.compile("^Theme"))
    switch.click()
    assert page.evaluate(background) == light
    switch.click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.locator(".state")).to_be_visible()
    assert page.evaluate(background) == dark
    opened.check()


def test_by_keyboard_alone(server: Served, window: Opening) -> None:
    opened = window(server.url)
    page = opened.page
    is_live(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.get_by_role("link", name="SQL", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="SQL")).to_be_focused()
    expect(page.get_by_label("SQL statements")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_label("SQL statements")).to_be_focused()
    page.keyboard.type("SELECT 1 AS one")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")  # the editor does not hold the focus
    expect(page.get_by_role("button", name="Preview the effect")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="1 row")).to_be_visible()
    for role in ("banner", "main"):
        expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    opened.check()


def test_what_is_not_there(server: Served, window: Opening) -> None:
    opened = window(server.url + "#/relation/nothing")
    expect(opened.page.get_by_text("There is no table or view named nothing")).to_be_visible()
    opened.check("status of 404")
