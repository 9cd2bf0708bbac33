"""Staudt & Jarke 1996, section 5: IllegalOS as an integrity view, which refuses, warns, or is watched by a rule."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from tests.marks import spark_long
from tests.papers.test_staudt_jarke import MODULES

CHECK = "CHECK (NOT EXISTS (SELECT * FROM ill_os))"
STORED = (MODULES, MODULES.replace(".output ill_os", ""), MODULES.replace(".output", "//"))
"""Both views are stored, only the recursive one is, and neither."""

stored = pytest.mark.parametrize(
    "program", [STORED[0], *spark_long(*STORED[1:])], ids=["both_stored", "mod_dep_stored", "none_stored"]
)


def modules(db: vk.Database, program: str = MODULES) -> None:
    """The database of Figure 5 before its updates: A is based on B and C, and C depends on unix."""
    db.datalog(program)
    with db.transaction() as tx:
        tx.insert("module", [(m,) for m in "ABCE"])
        tx.insert("procedure", [("directory",), ("time",), ("list",)])
        tx.insert("op_sys", [("unix",), ("dos",)])
        tx.insert("defined_in", [("directory", "C"), ("time", "E"), ("list", "B")])
        tx.insert("import", [("A", "list"), ("B", "directory")])
        tx.insert("depend_on", [("directory", "unix"), ("time", "dos")])


def check_in_a(db: vk.Database | vk.Transaction) -> None:
    """The first update of the figure: A imports time, which is defined in E and depends on dos."""
    db.sql("INSERT INTO import VALUES ('A', 'time')")


def new_module_d(tx: vk.Transaction) -> None:
    """The second update: D imports diff, which is defined in A."""
    tx.insert("module", [("D",)])
    tx.insert("procedure", [("diff",)])
    tx.insert("defined_in", [("diff", "A")])
    tx.insert("import", [("D", "diff")])


@stored
def test_an_assertion_refuses_the_import_link(db: vk.Database, program: str) -> None:
    modules(db, program)
    db.sql(f"CREATE ASSERTION illegal_os {CHECK}")
    epoch = db.epoch
    with pytest.raises(vk.errors.AssertionViolated) as caught:
        check_in_a(db)
    assert caught.value.message == "the assertion illegal_os is violated"
    assert "x = 'A', y = 'C', z = 'E'" in str(caught.value)
    assert "x = 'A', y = 'E', z = 'C'" in str(caught.value)
    assert db.epoch == epoch
    assert sorted(db.sql("SELECT * FROM import").rows()) == [("A", "list"), ("B", "directory")]
    with db.transaction() as tx:
        new_module_d(tx)
    assert tx.commit_info is not None, "D alone is based on nothing that is in conflict"
    assert db.sql("SELECT * FROM illegal_os").rows() == []


@pytest.mark.spark_long
@stored
def test_an_assertion_warns_and_the_views_go_on(db: vk.Database, program: str) -> None:
    """Integrity views do not necessarily lead to rejections of updates if their extension becomes non-empty."""
    modules(db, program)
    db.sql(f"CREATE ASSERTION illegal_os ON VIOLATION WARN {CHECK}")
    first = check_in_a_and_commit(db)
    (warning,) = first.warnings
    assert warning.startswith("the assertion illegal_os is violated: by ")
    assert "x = 'A', y = 'C', z = 'E'" in warning
    with db.transaction() as tx:
        new_module_d(tx)
    assert tx.commit_info is not None
    (warning,) = tx.commit_info.warnings
    assert "x = 'D', y = 'C', z = 'E'" in warning
    assert "x = 'A'" not in warning, "only the new violations are told"
    assert set(db.sql("SELECT * FROM illegal_os").rows()) == {
        ("A", "C", "E"),
        ("A", "E", "C"),
        ("D", "C", "E"),
        ("D", "E", "C"),
    }
    harmless = db.sql("INSERT INTO op_sys VALUES ('vms')").commit
    assert harmless.warnings == ()
    assert db.verify().equal


def check_in_a_and_commit(db: vk.Database) -> vk.Commit:
    with db.transaction() as tx:
        check_in_a(tx)
    assert tx.commit_info is not None
    return tx.commit_info


@pytest.mark.spark_long
def test_an_assertion_becomes_strict_when_its_violations_are_gone(db: vk.Database) -> None:
    """Multiple levels of enforcement: warned about first, corrected in any order, then refused."""
    modules(db)
    db.sql(f"CREATE ASSERTION illegal_os ON VIOLATION WARN {CHECK}")
    check_in_a(db)
    with pytest.raises(vk.errors.AssertionViolated, match="the assertion illegal_os does not hold now"):
        db.sql("ALTER ASSERTION illegal_os ON VIOLATION ABORT")
    db.sql("UPDATE depend_on SET o = 'unix' WHERE p = 'time'")
    assert db.sql("SELECT * FROM illegal_os").rows() == []
    db.sql("ALTER ASSERTION illegal_os ON VIOLATION ABORT")
    with pytest.raises(vk.errors.AssertionViolated):
        db.sql("UPDATE depend_on SET o = 'dos' WHERE p = 'time'")


@pytest.mark.spark_long
@stored
def test_a_rule_watches_the_view(db: vk.Database, program: str) -> None:
    """The notifications of Figure 5: what each update adds to IllegalOS, and what a correction takes from it."""
    modules(db, program)
    db.sql("CREATE TABLE told (what STRING, x STRING, y STRING, z STRING)")
    db.sql(
        "CREATE RULE notify ON ill_os WHEN INSERTED OR DELETED DO BEGIN "
        "INSERT INTO told SELECT '+', * FROM inserted; INSERT INTO told SELECT '-', * FROM deleted; END"
    )
    first = check_in_a_and_commit(db)
    assert first.changes["told"].weights() == {("+", "A", "C", "E"): 1, ("+", "A", "E", "C"): 1}
    with db.transaction() as tx:
        new_module_d(tx)
    assert tx.commit_info is not None
    assert tx.commit_info.changes["told"].weights() == {("+", "D", "C", "E"): 1, ("+", "D", "E", "C"): 1}
    removed = db.sql("DELETE FROM import WHERE m = 'B'").commit
    assert removed.changes["told"].weights() == {("-", m, *pair): 1 for m in "AD" for pair in ("CE", "EC")}


@pytest.mark.spark_long
def test_a_rule_corrects_the_violation_before_the_assertion_is_checked(db: vk.Database) -> None:
    """Imports of procedures of another operating system are taken out again; the transaction commits without them."""
    modules(db)
    db.sql(f"CREATE ASSERTION illegal_os {CHECK}")
    db.sql(
        "CREATE RULE correct ON ill_os DO DELETE FROM import WHERE EXISTS "
        "(SELECT * FROM inserted i JOIN defined_in d ON d.m = i.z JOIN depend_on o ON o.p = d.p "
        "WHERE i.x = import.m AND d.p = import.p AND o.o = 'dos')"
    )
    with db.transaction() as tx:
        check_in_a(tx)
        new_module_d(tx)
    assert tx.commit_info is not None
    assert "ill_os" not in tx.commit_info.changes
    assert sorted(db.sql("SELECT * FROM import").rows()) == [("A", "list"), ("B", "directory"), ("D", "diff")]
    assert db.verify().equal


@pytest.mark.spark_long
def test_the_preview_names_the_rule_and_the_assertion(db: vk.Database) -> None:
    modules(db)
    db.sql("CREATE TABLE told (x STRING)")
    db.sql(f"CREATE ASSERTION illegal_os {CHECK}")
    db.sql("CREATE RULE notify ON ill_os DO INSERT INTO told SELECT x FROM inserted")
    tx = db.transaction()
    check_in_a(tx)
    found = tx.preview()
    assert found.rules == ["notify"]
    (broken,) = found.assertions
    assert "illegal_os" in broken
    with pytest.raises(vk.errors.AssertionViolated):
        tx.commit()
    assert db.sql("SELECT * FROM told").rows() == []
