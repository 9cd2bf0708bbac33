"""Datalog programs in a database: what they make, how rules change, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import viewkeeper as vk

CLOSURE = """
    .decl edge(x:symbol, y:symbol)
    .input edge
    .decl path(x:symbol, y:symbol)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    edge("a", "b"). edge("b", "c").
"""


def rows(db: vk.Database, name: str) -> list[tuple[object, ...]]:
    return sorted(db.sql(f"SELECT * FROM {name}").rows(), key=str)


def test_a_program_makes_tables_and_views(db: vk.Database) -> None:
    db.sql("CREATE TABLE node (x STRING); INSERT INTO node VALUES ('a'), ('z')")
    commit = db.datalog(CLOSURE + "lonely(x) :- node(x), !path(x, _).").commit
    assert commit.changes["path"].weights() == {("a", "b"): 1, ("b", "c"): 1, ("a", "c"): 1}
    kinds = {row["name"]: row["kind"] for row in db.ls()}
    assert kinds == {"edge": "table", "lonely": "view", "node": "table", "path": "materialized view"}
    assert rows(db, "lonely") == [("z",)]
    db.sql("CREATE MATERIALIZED VIEW far AS SELECT x, count(*) AS n FROM path GROUP BY x")
    assert rows(db, "far") == [("a", 2), ("b", 1)]
    db.sql("DELETE FROM edge WHERE x = 'b'")
    assert rows(db, "far") == [("a", 1)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_rules_and_facts_share_a_transaction(db: vk.Database) -> None:
    db.datalog(CLOSURE)
    db.sql("CREATE TABLE ferry (x STRING, y STRING)")
    with db.transaction() as tx:
        tx.datalog("+ path(x, y) :- ferry(x, y).")
        tx.insert("ferry", [("c", "d")])
        tx.sql("DELETE FROM edge WHERE x = 'a'")
        assert ("c", "d") in tx.sql("SELECT * FROM path").rows()
    assert tx.commit_info is not None
    weights = tx.commit_info.changes["path"].weights()
    assert weights == {("a", "b"): -1, ("a", "c"): -1, ("c", "d"): 1}
    assert "its definition has changed: rule" in tx.commit_info.report["path"].reason
    assert db.verify().equal


@pytest.mark.spark_long
def test_removing_rules_leaves_the_rest(db: vk.Database) -> None:
    db.datalog(CLOSURE)
    result = db.datalog("- path(a, b) :- edge(a, b).")  # names of variables do not matter
    assert result.commit.changes["path"].weights() == {("a", "b"): -1, ("b", "c"): -1, ("a", "c"): -1}
    result = db.datalog("- path(x, z) :- path(x, y), edge(y, z).")
    assert result.remarks == ["path has no rules left: it is empty"]
    assert rows(db, "path") == []
    db.datalog("+ path(y, x) :- edge(x, y).")
    assert rows(db, "path") == [("b", "a"), ("c", "b")]


def test_a_rule_can_make_a_relation_recursive(db: vk.Database) -> None:
    db.datalog("""
        .decl link(x:number, y:number)
        .input link
        .decl hop(x:number, y:number)
        hop(x, y) :- link(x, y).
        .decl reach(x:number)
        .output reach
        reach(y) :- hop(1, y).
        link(1, 2). link(2, 3).
    """)
    assert rows(db, "reach") == [(2,)]
    commit = db.datalog("+ hop(x, z) :- hop(x, y), link(y, z).").commit
    assert commit.changes["reach"].weights() == {(3,): 1}
    commit = db.datalog("- hop(x, z) :- hop(x, y), link(y, z).").commit
    assert commit.changes["reach"].weights() == {(3,): -1}


def test_aggregates_arithmetic_and_strings(db: vk.Database) -> None:
    db.datalog("""
        .decl sale(shop:symbol, amount:number)
        .input sale
        .decl shop(name:symbol)
        .input shop
        .decl told(shop:symbol, n:number, total:number, most:number, mean:float, text:symbol)
        .output told
        told(s, n, t, m, a, w) :- shop(s), n = count : { sale(s, _) }, t = sum x : { sale(s, x) },
            m = max x : { sale(s, x) }, a = mean x : { sale(s, x) }, w = cat(s, "-", to_string(t / 2)).
        .decl idle(shop:symbol, n:number)
        .output idle
        idle(s, n) :- shop(s), n = count : { sale(s, _) }, n < 1.
        shop("a"). shop("b"). sale("a", 5). sale("a", 2). sale("a", 2).
    """)
    assert rows(db, "told") == [("a", 2, 7, 5, 3.5, "a-3")]
    assert rows(db, "idle") == [("b", 0)]
    db.sql("INSERT INTO sale VALUES ('b', -3)")
    assert rows(db, "told") == [("a", 2, 7, 5, 3.5, "a-3"), ("b", 1, -3, -3, -3.0, "b--1")]
    assert rows(db, "idle") == []
    assert db.verify().equal


def test_questions(db: vk.Database) -> None:
    db.datalog(CLOSURE)
    asked = db.datalog_query('path("a", X)')
    assert asked.columns == ["X"]
    assert sorted(asked.rows()) == [("b",), ("c",)]
    assert sorted(db.datalog_query("path(X, Y), !edge(X, Y).").rows()) == [("a", "c")]
    assert db.datalog_query('path("a", "c")').rows() == [(True,)]
    assert db.datalog_query('path("c", _)').rows() == [(False,)]
    assert db.datalog_query("n = count : { path(_, _) }").rows() == [(3,)]
    with pytest.raises(vk.errors.DatalogError, match="Undefined relation pth"):
        db.datalog_query("pth(X, Y)")


REFUSED = [
    (
        "path(x, y) :- edge(x, y).",
        "path is already defined by rules\nat line 1, column 1:\n  path(x, y) :- edge(x, y).\n  ^^^^^^^^^^\n"
        "hint: write + path(x, y) :- edge(x, y). to add a rule, - to remove one",
    ),
    (
        "+ edge(x, y) :- path(y, x).",
        "edge is a table, so it cannot have rules\nat line 1, column 3:\n"
        "  + edge(x, y) :- path(y, x).\n    ^^^^^^^^^^\n"
        "hint: write the rules for another relation",
    ),
    (
        "- path(x, y) :- edge(y, x).",
        "path has no such rule\nat line 1, column 1:\n  - path(x, y) :- edge(y, x).\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "detail: its rules are:\npath(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
        "hint: write the rule as it was written; names of variables do not matter",
    ),
    (
        ".decl path(x:symbol, y:symbol)",
        "there is already a materialized view named 'path'\nhint: DROP MATERIALIZED VIEW path",
    ),
    (
        ".decl edge(x:number, y:number)\n.input edge",
        "edge is declared with other columns than the table has\nat line 1, column 7:\n"
        "  .decl edge(x:number, y:number)\n        ^^^^\n"
        "hint: write .decl edge(x:string, y:string), or leave the declaration out",
    ),
    (
        "+ v(x) :- edge(x, _).",
        "v is a view defined by SQL, so it cannot have rules\nat line 1, column 3:\n  + v(x) :- edge(x, _).\n    ^^^^\n"
        "hint: ALTER VIEW v AS SELECT ..., or write rules for another relation",
    ),
    (
        "p(x) :- q(x).\nq(x) :- p(x).",
        "the types of the columns of p are not known: all its rules are recursive\nat line 1, column 1:\n"
        "  p(x) :- q(x).\n  ^^^^\nhint: declare it: .decl p(x:number)",
    ),
    (
        ".decl n(x:number)\nn(x) :- edge(y, _), x = to_float(y).",
        "x is a DOUBLE, and column x of n a BIGINT\nat line 2, column 3:\n"
        "  n(x) :- edge(y, _), x = to_float(y).\n    ^\n"
        "detail: in the rule n(x) :- edge(y, _), x = to_float(y).\nhint: use to_number(x)",
    ),
    (
        ".decl n(x:number)\n.output n\nn(0).\nn(y) :- n(x), y = x + 1.",
        "the recursion of n never ends: some rows lead back to themselves, and x grows each time\n"
        "detail: while computing n\nhint: add a condition that ends it to the rule, such as x < 100",
    ),
]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("program", "message"), REFUSED, ids=[program.splitlines()[-1] for program, _ in REFUSED])
def test_what_is_refused(db: vk.Database, program: str, message: str) -> None:
    db.datalog(CLOSURE)
    db.sql("CREATE VIEW v AS SELECT x FROM edge")
    before = db.epoch
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        db.datalog(program)
    assert str(caught.value) == message
    assert db.epoch == before


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_change_that_never_ends(db: vk.Database) -> None:
    db.datalog(".decl s(x:number)\n.input s\n.decl n(x:number)\n.output n\nn(x) :- s(x).\nn(y) :- n(x), y = x + 1.")
    before = db.epoch
    with pytest.raises(vk.errors.DatalogError) as caught:
        db.sql("INSERT INTO s VALUES (1)")
    assert caught.value.message == "n cannot be maintained, so nothing was committed"
    assert (caught.value.detail or "").startswith("the recursion of n never ends: some rows lead back to themselves")
    assert db.epoch == before
    assert rows(db, "s") == []


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_change_that_does_not_end_soon(db: vk.Database) -> None:
    db.sql("SET max_rounds = 20")
    db.datalog(
        ".decl s(x:number)\n.input s\n.decl n(x:number)\n.output n\nn(x) :- s(x).\nn(y) :- n(x), y = x + 1, x > 0."
    )
    before = db.epoch
    with pytest.raises(vk.errors.DatalogError) as caught:
        db.sql("INSERT INTO s VALUES (1)")
    assert str(caught.value) == (
        "n cannot be maintained, so nothing was committed\n"
        "detail: the recursion of n did not end after 20 rounds\n"
        "hint: add a condition that ends it to the rule, such as x < 100; "
        "if it needs more rounds: SET max_rounds = 200; "
        "or ALTER MATERIALIZED VIEW n SUSPEND; lets the tables change without it"
    )
    assert db.epoch == before
    assert rows(db, "s") == []


MUTUAL = """
    .decl edge(x:number, y:number)
    .input edge
    .decl odd(x:number, y:number)
    .decl even(x:number, y:number)
    .output odd
    .output even
    odd(x, y) :- edge(x, y).
    odd(x, z) :- even(x, y), edge(y, z).
    even(x, z) :- odd(x, y), edge(y, z).
    far(x) :- even(x, y), y > 3.
    .output far
    edge(1, 2). edge(2, 3). edge(3, 4). edge(4, 5).
"""


@pytest.mark.spark_long
def test_relations_that_depend_on_each_other_follow_their_rules(db: vk.Database) -> None:
    db.datalog(MUTUAL)
    for rule in ("+ odd(x, x) :- edge(x, _), x > 3.", "- even(x, z) :- odd(x, y), edge(y, z)."):
        told = db.explain_datalog(rule).splitlines()
        assert [line.split(":")[0] for line in told] == [
            "even is maintained incrementally",
            "odd is maintained incrementally",
        ]
        with db.transaction() as tx:
            tx.datalog(rule)
            tx.insert("edge", [(5, 1)])
            tx.delete("edge", [(2, 3)])
        assert tx.commit_info is not None
        assert {tx.commit_info.report[name].strategy for name in ("odd", "even")} <= {"incremental", "none"}
        assert db.verify().equal
        with db.transaction() as tx:
            tx.delete("edge", [(5, 1)])
            tx.insert("edge", [(2, 3)])
    assert rows(db, "even") == []
    commit = db.datalog("+ even(x, z) :- odd(x, y), edge(y, z).").commit
    assert commit.report["even"].strategy == "incremental"
    assert commit.changes["even"].weights()[1, 3] == 1
    assert db.verify().equal


def test_a_stored_relation_follows_when_it_becomes_recursive_and_back(db: vk.Database) -> None:
    db.datalog(CLOSURE.replace("path(x, z) :- path(x, y), edge(y, z).", ""))
    step = "path(x, z) :- path(x, y), edge(y, z)."
    for sign, weight in (("+", 1), ("-", -1), ("+", 1)):
        happened = "added" if sign == "+" else "removed"
        assert db.explain_datalog(f"{sign} {step}") == f"path is maintained incrementally: rule {happened}: {step}"
        commit = db.datalog(f"{sign} {step}").commit
        assert commit.changes["path"].weights() == {("a", "c"): weight}
        assert commit.report["path"].strategy == "incremental"
        assert db.verify().equal


@pytest.mark.spark_long
def test_a_relation_that_is_not_recursive_follows_its_rules(db: vk.Database) -> None:
    db.datalog(CLOSURE + ".decl near(x:symbol) .output near near(x) :- edge(x, _).")
    rule = 'near(y) :- edge(_, y), y != "b".'
    assert db.explain_datalog(f"+ {rule}") == "near is maintained incrementally: a union branch added"
    assert db.datalog(f"+ {rule}").commit.changes["near"].weights() == {("c",): 1}
    assert db.datalog(f"- {rule}").commit.changes["near"].weights() == {("c",): -1}
    assert db.verify().equal


CONSTANTS = {
    "passed on": "path(x, z) :- path(x, y), edge(y, z).",
    "moved": "path(x, z) :- edge(x, y), path(y, z).",
    "both": "path(x, z) :- path(x, y), path(y, z).",
}


@pytest.mark.spark_long
@pytest.mark.parametrize("step", CONSTANTS)
def test_constants_are_pushed_into_the_rules(db: vk.Database, step: str) -> None:
    db.datalog(
        CLOSURE.replace(".output path", "").replace("path(x, z) :- path(x, y), edge(y, z).", CONSTANTS[step])
        + '.decl reach(y:symbol) .output reach reach(y) :- path("a", y). edge("p", "q"). edge("q", "p").'
    )
    assert rows(db, "reach") == [("b",), ("c",)]
    body = json.loads(db.explain("reach", format="json"))
    assert all(recursion["relation"] != "path" for recursion in body["recursion"])
    kept = {str(part["tree"]): part["rows"] for part in body["auxiliary"]}
    assert sum(kept.values()) <= 9, kept  # nothing of p and q
    commit = db.sql("INSERT INTO edge VALUES ('q', 'r')").commit
    assert commit.report["reach"].strategy == "none"
    commit = db.sql("INSERT INTO edge VALUES ('c', 'p')").commit
    assert commit.changes["reach"].weights() == {("p",): 1, ("q",): 1, ("r",): 1}
    commit = db.sql("DELETE FROM edge WHERE x = 'b'").commit
    assert commit.changes["reach"].weights() == dict.fromkeys([("c",), ("p",), ("q",), ("r",)], -1)
    assert rows(db, "reach") == [("b",)]
    assert db.sql("SELECT y FROM path WHERE x = 'q' ORDER BY y").rows() == [("p",), ("q",), ("r",)]
    assert db.verify().equal


@pytest.mark.spark_long
def test_explain_says_which_changes_matter(db: vk.Database) -> None:
    db.datalog(
        CLOSURE + ".decl node(x:symbol) .input node .decl lonely(x:symbol) .output lonely "
        "lonely(x) :- node(x), !path(x, _)."
    )
    text = db.explain("lonely").splitlines()
    assert "additions can only come from insertions into node, deletions from path" in text
    assert "removals can only come from deletions from node, insertions into path" in text
    assert [line for (line,) in db.sql("EXPLAIN INSERT INTO edge VALUES ('x', 'y')").rows()] == [
        "INSERT changes edge: its rows",
        "  reaches path, a materialized view maintained by the commit; only inserts reach it",
        "  reaches lonely through path, a materialized view maintained by the commit; only deletes reach it",
    ]


@pytest.mark.spark_long
def test_what_gets_dearer_than_computing_anew_is_given_up(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(driver_rows=0))
    db.datalog(CLOSURE.replace("symbol", "number").replace('edge("a", "b"). edge("b", "c").', ""))
    with db.transaction() as tx:
        tx.insert("edge", [(i, i + 1) for i in range(300) if i != 150])
    commit = db.sql("INSERT INTO edge VALUES (150, 151)").commit
    report = commit.report["path"]
    assert report.strategy == "full"
    assert "incremental refresh by epf was given up after" in report.reason
    assert len(commit.changes["path"].weights()) == 151 * 150
    assert db.verify().equal
    assert db.sql("INSERT INTO edge VALUES (1000, 1001)").commit.report["path"].strategy == "incremental"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_is_given_up_again_and_again_is_not_tried(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(driver_rows=0, negligible_rows=0))
    db.datalog(CLOSURE.replace("symbol", "number").replace('edge("a", "b"). edge("b", "c").', ""))
    with db.transaction() as tx:
        tx.insert("edge", [(i, i + 1) for i in range(24) if i != 12])
    reasons = []
    for _ in range(3):
        reasons.append(db.sql("INSERT INTO edge VALUES (12, 13)").commit.report["path"].reason)
        db.sql("DELETE FROM edge WHERE x = 12")
    assert ["was given up after" in reason for reason in reasons] == [True, True, False]
    assert "incremental refresh was given up 2 times in a row" in reasons[2]
    assert db.verify().equal


AGGREGATED = """
    .decl edge(x:number, y:number)
    .input edge
    .decl p(x:number, y:number)
    .output p
    p(x, y) :- edge(x, y).
    p(z, x) :- edge(x, y), p(z, y), u = count : { edge(_, y), y >= x }, u > 0.
    edge(1, 2). edge(2, 3). edge(3, 1).
"""


@pytest.mark.spark_long
def test_an_aggregate_in_a_recursive_rule_may_name_variables_around_it(db: vk.Database) -> None:
    db.datalog(AGGREGATED)  # from p(z, y) to p(z, x) over edge(x, y) where y >= x
    assert rows(db, "p") == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1)]
    commit = db.sql("DELETE FROM edge WHERE x = 1").commit
    assert commit.changes["p"].weights() == {(1, 1): -1, (1, 2): -1, (2, 1): -1}
    assert db.verify().equal


@pytest.mark.spark_long
def test_an_aggregate_over_the_recursion_itself_is_refused_at_its_rule(db: vk.Database) -> None:
    with pytest.raises(vk.errors.DatalogError) as caught:
        db.datalog("""
            .decl edge(x:number, y:number)
            .input edge
            .decl p(x:number)
            .output p
            p(x) :- edge(x, _).
            p(u) :- p(y), u = count : { edge(a, _), a > y }, u < 9.
        """)
    assert str(caught.value) == (
        "'p' cannot be read through GROUP BY and aggregates inside its own definition\n"
        "at line 7, column 13:\n"
        "              p(u) :- p(y), u = count : { edge(a, _), a > y }, u < 9.\n"
        "              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "detail: in the rule p(u) :- p(y), u = count : { edge(a, _), a > y }, u < 9.\n"
        "hint: do that outside of the recursion, over its result"
    )


VIRTUAL = """
    .decl e(x:symbol, y:symbol)
    .input e
    .decl f(y:symbol)
    .input f
    .decl p(x:symbol, y:symbol)
    .decl q(x:symbol, y:symbol)
    .decl r(v:symbol)
    .output r
    .decl empty(s:symbol)
    .output empty
    p(y, y) :- q(y, "2").
    p(x, y) :- e(x, y).
    p(x, z) :- p(x, y), q(y, z).
    q(x, z) :- q(x, y), e(z, x).
    q(y, y) :- q(z, y), f(z).
    q("2", "3").
    r(v) :- p(v, "2"), e(v, _).
    empty("yes") :- !e(_, _).
"""


@pytest.mark.spark_long
def test_constants_reach_recursions_that_store_nothing(db: vk.Database) -> None:
    db.datalog(VIRTUAL)
    assert rows(db, "empty") == [("yes",)]
    db.sql("INSERT INTO e VALUES ('1', '2'), ('2', '2'), ('3', '1'); INSERT INTO f VALUES ('2')")
    assert (rows(db, "r"), rows(db, "empty")) == ([("1",), ("2",)], [])
    assert db.verify().equal
    db.sql("DELETE FROM e")
    assert (rows(db, "r"), rows(db, "empty")) == ([], [("yes",)])
    assert db.verify().equal
