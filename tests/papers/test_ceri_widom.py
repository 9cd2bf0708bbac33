"""Ceri and Widom 1991: the airline views with their bound columns, verdicts and rules, and the updates of section 4.4.

The rules are compared with the paper's, word for word but for `-` in names, `!= null`, and the repair of section 7.2:
what is inserted because a flight went is tested against the flights as they are now.
"""

from __future__ import annotations

import textwrap

import pytest

import viewkeeper as vk
from viewkeeper.advice.advice import Analysis, analyze_view
from viewkeeper.advice.named_relations import Known, StoredRelation
from viewkeeper.sql import parsed_statements as statements
from viewkeeper.sql.tokens import split
from viewkeeper.triggers.derive import derive_script

SCHEMA = """
    CREATE TABLE flight (flight_id INT PRIMARY KEY, flight_no INT NOT NULL, date DATE NOT NULL,
        UNIQUE (flight_no, date));
    CREATE TABLE res (res_id INT PRIMARY KEY, psgr_id INT NOT NULL, flight_id INT NOT NULL, seat STRING NOT NULL,
        UNIQUE (psgr_id, flight_id), UNIQUE (flight_id, seat));
    CREATE TABLE psgr (psgr_id INT PRIMARY KEY, name STRING, phone STRING, meal STRING, ffn INT NOT NULL UNIQUE);
    CREATE TABLE ff (ffn INT PRIMARY KEY, miles INT)
"""

VIEWS = {
    "special_meals": "SELECT res.seat, psgr.meal FROM res, psgr "
    "WHERE res.flight_id = 7 AND res.psgr_id = psgr.psgr_id AND psgr.meal IS NOT NULL",
    "ff_res": "SELECT DISTINCT psgr.ffn FROM psgr, res WHERE psgr.psgr_id = res.psgr_id",
    "many_miles": "SELECT psgr_id AS id FROM psgr WHERE psgr.ffn IN (SELECT ffn FROM ff WHERE miles > 50000)",
    "bad_flight": "SELECT res_id FROM res "
    "WHERE NOT EXISTS (SELECT * FROM flight WHERE flight.flight_id = res.flight_id)",
}


def known() -> Known:
    found = Known()
    for statement in split(SCHEMA):
        parsed = statements.parse(statement)
        assert isinstance(parsed, statements.CreateTable)
        assert parsed.schema is not None
        found.add(StoredRelation(parsed.name, parsed.schema, is_view=False))
    return found


def analyzed(name: str) -> Analysis:
    return analyze_view(name, VIEWS[name], VIEWS[name], known())


def rules(name: str, query: str | None = None, *rematerialized: str) -> dict[str, str]:
    script = f"{SCHEMA}; CREATE MATERIALIZED VIEW {name} AS {query or VIEWS[name]}"
    found = derive_script(script, rematerialized)
    assert len({rule.name for rule in found}) == len(found)
    return {rule.name: str(rule) for rule in found}


def bound(name: str) -> dict[str, tuple[str, ...]]:
    return {verdict.reference.name: verdict.bound for verdict in analyzed(name).findings.verdicts}


def same(rule: str, wanted: str) -> bool:
    """Whether two rules are the same, whatever their lines and spaces."""
    return rule.split("\nprecedes")[0].split() == textwrap.dedent(wanted).split()


# bound columns and verdicts -------------------------------------------------------------------------


def test_special_meals_binds_keys_of_both_tables() -> None:
    analysis = analyzed("special_meals")
    assert bound("special_meals") == {
        "res": ("res_id", "psgr_id", "flight_id", "seat"),
        "psgr": ("psgr_id", "name", "phone", "meal", "ffn"),
    }
    assert [(v.reference.name, v.key) for v in analysis.findings.verdicts] == [
        ("res", ("flight_id", "seat")),
        ("psgr", ("psgr_id",)),
    ]
    assert not analysis.duplicates
    assert all(verdict.is_safe for verdict in analysis.findings.verdicts)


def test_ff_res_may_contain_duplicates_and_res_is_not_safe() -> None:
    query = VIEWS["ff_res"].replace("DISTINCT ", "")
    analysis = analyze_view("ff_res", query, query, known())
    psgr, res = analysis.findings.verdicts
    assert psgr.bound == ("psgr_id", "name", "phone", "meal", "ffn")
    assert res.bound == ("psgr_id",)
    assert (psgr.is_safe, res.is_safe) == (True, False)
    assert analysis.duplicates
    assert [advice.text for advice in analysis.advice] == [
        "add res.res_id to the SELECT list",
        "declare UNIQUE (psgr_id) NOT NULL on res, if no two of its rows have the same values there",
        "write SELECT DISTINCT",
    ]
    assert not analyzed("ff_res").duplicates
    with pytest.raises(vk.errors.NotMaintainable, match="a row may be there more than once"):
        rules("ff_res", query)


def test_many_miles_binds_the_key_of_the_nested_table() -> None:
    psgr, ff = analyzed("many_miles").findings.verdicts
    assert psgr.bound == ("psgr_id", "name", "phone", "meal", "ffn")
    assert (ff.nesting.value, ff.key, ff.is_safe) == ("EXISTS, IN or ANY", ("ffn",), True)
    assert analyzed("many_miles").keys == [("id",)]


def test_bad_flight_is_safe_in_both_ways() -> None:
    _, flight = analyzed("bad_flight").findings.verdicts
    assert flight.nesting.value == "NOT EXISTS, NOT IN or ALL"
    assert flight.is_safe_for_insertions
    assert flight.is_safe


def test_a_comparison_with_what_is_not_bound_is_not_safe() -> None:
    query = VIEWS["bad_flight"].replace("SELECT res_id", "SELECT DISTINCT psgr_id")
    _, flight = analyze_view("v", query, query, known()).findings.verdicts
    assert (flight.looks_outside, flight.is_safe_for_insertions, flight.is_safe) == (("flight_id",), False, False)
    assert "inserted into flight" in rules("v", query)["rematerialize-v"]


def test_branches_are_looked_at_on_their_own() -> None:
    query = "SELECT psgr_id FROM psgr UNION SELECT psgr_id FROM res INTERSECT SELECT flight_id FROM flight"
    found = {v.reference.name: v.is_safe for v in analyze_view("v", query, query, known()).findings.verdicts}
    assert found == {"psgr": True, "res": False, "flight": True}


def test_a_unique_column_that_may_be_null_is_no_key() -> None:
    text = "CREATE TABLE t (a INT UNIQUE, b INT)"
    parsed = statements.parse(split(text)[0])
    assert isinstance(parsed, statements.CreateTable)
    assert parsed.schema is not None
    tables = Known()
    tables.add(StoredRelation("t", parsed.schema, is_view=False))
    assert analyze_view("v", "SELECT a FROM t", "SELECT a FROM t", tables).duplicates


# rules ----------------------------------------------------------------------------------------------

MEALS = """
     (select res.seat, psgr.meal
      from {}
      where res.flight_id = 7
      and res.psgr_id = psgr.psgr_id
      and psgr.meal IS NOT NULL{})
"""

SPECIAL_MEALS = {
    "ins-res-special_meals": "create rule ins-res-special_meals when inserted into res then insert into special_meals"
    + MEALS.format("inserted res, psgr", " and <seat,meal> not in inserted special_meals"),
    "del-res-special_meals": "create rule del-res-special_meals when deleted from res then delete from special_meals "
    "where <seat,meal> in" + MEALS.format("deleted res, old psgr", ""),
    "old-upd-res-special_meals": "create rule old-upd-res-special_meals when updated res then "
    "delete from special_meals where <seat,meal> in" + MEALS.format("old updated res, old psgr", ""),
    "new-upd-res-special_meals": "create rule new-upd-res-special_meals when updated res then "
    "insert into special_meals"
    + MEALS.format("new updated res, psgr", " and <seat,meal> not in inserted special_meals"),
}

FF_RES = {
    "ins-res-ff_res": """
        create rule ins-res-ff_res
        when inserted into res
        then insert into ff_res
          (select distinct psgr.ffn
           from psgr, inserted res
           where psgr.psgr_id = res.psgr_id
           and ffn not in ff_res)""",
    "rematerialize-ff_res": """
        create rule rematerialize-ff_res
        when deleted from res,
          updated res
        then delete from ff_res;
        insert into ff_res
          (select distinct psgr.ffn from psgr, res
           where psgr.psgr_id = res.psgr_id);
        deactivate-rules(ff_res)""",
}

MANY_MILES = {
    "ins-ff-many_miles": """
        create rule ins-ff-many_miles
        when inserted into ff
        then insert into many_miles
          (select psgr_id from psgr
           where psgr.ffn in
             (select ffn from inserted ff
              where miles > 50000)
           and psgr_id not in inserted many_miles)""",
    "del-ff-many_miles": """
        create rule del-ff-many_miles
        when deleted from ff
        then delete from many_miles
          where id in
            (select psgr_id from old psgr
             where psgr.ffn in
               (select ffn from deleted ff
                where miles > 50000))""",
}

BAD_FLIGHT = {
    "ins-flight-bad_flight": """
        create rule ins-flight-bad_flight
        when inserted into flight
        then delete from bad_flight
          where res_id in
            (select res_id from res
             where exists
               (select * from inserted flight
                where flight.flight_id = res.flight_id))""",
    "del-flight-bad_flight": """
        create rule del-flight-bad_flight
        when deleted from flight
        then insert into bad_flight
          (select res_id from res
           where exists
             (select * from deleted flight
              where flight.flight_id = res.flight_id)
           and not exists
             (select * from flight
              where flight.flight_id = res.flight_id)
           and res_id not in inserted bad_flight)""",
}


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        ("special_meals", SPECIAL_MEALS),
        ("ff_res", FF_RES),
        ("many_miles", MANY_MILES),
        ("bad_flight", BAD_FLIGHT),
    ],
)
def test_rules_of_the_paper(view: str, wanted: dict[str, str]) -> None:
    found = rules(view)
    for name, text in wanted.items():
        assert same(found[name], text), found[name]


def test_every_reference_has_its_rules_and_deletions_come_first() -> None:
    found = rules("special_meals")
    assert set(found) == {
        f"{kind}-{table}-special_meals" for kind in ("ins", "del", "old-upd", "new-upd") for table in ("res", "psgr")
    }
    kinds = ["delete from" in text for text in found.values()]
    assert kinds == sorted(kinds, reverse=True)
    assert found["del-res-special_meals"].endswith(
        "precedes ins-res-special_meals,\n"
        "         new-upd-res-special_meals,\n"
        "         ins-psgr-special_meals,\n"
        "         new-upd-psgr-special_meals"
    )


def test_rules_that_the_rematerialization_takes_over_are_left_out() -> None:
    assert set(rules("ff_res")) == {
        "rematerialize-ff_res",
        *(f"{kind}-psgr-ff_res" for kind in ("ins", "del", "old-upd", "new-upd")),
        "ins-res-ff_res",
    }
    moved = rules("bad_flight", None, "deleted from res")
    assert "del-res-bad_flight" not in moved
    assert "when deleted from res\n" in moved["rematerialize-bad_flight"]
    with pytest.raises(vk.errors.SqlError, match="no rule is triggered by 'deleted from psgr'"):
        rules("bad_flight", None, "deleted from psgr")
    for asked in ("", "res", "updated nothing", "del-res-bad_flight"):
        with pytest.raises(vk.errors.SqlError, match="no rule is triggered by"):
            rules("bad_flight", None, asked)
    assert rules("bad_flight", None, "DELETED  from Res") == moved


def test_union_views_look_at_the_other_branches() -> None:
    found = rules("ids", "SELECT psgr_id FROM psgr UNION SELECT flight_id FROM flight")
    assert same(
        found["del-psgr-ids"],
        """create rule del-psgr-ids when deleted from psgr then delete from ids where psgr_id in
           (select psgr_id from deleted psgr)
           and psgr_id not in (select flight_id from flight)""",
    )
    assert same(
        found["ins-psgr-ids"],
        """create rule ins-psgr-ids when inserted into psgr then insert into ids
           (select psgr_id from inserted psgr where psgr_id not in ids)""",
    )


def test_intersect_views_look_at_the_other_branches_when_they_insert() -> None:
    found = rules("ids", "SELECT psgr_id FROM psgr INTERSECT SELECT flight_id FROM flight")
    assert same(
        found["ins-psgr-ids"],
        """create rule ins-psgr-ids when inserted into psgr then insert into ids
           (select psgr_id from inserted psgr where psgr_id not in inserted ids
            and psgr_id in (select flight_id from flight))""",
    )
    assert same(
        found["del-flight-ids"],
        """create rule del-flight-ids when deleted from flight then delete from ids where psgr_id in
           (select flight_id from deleted flight)""",
    )


REFUSED = {
    "SELECT seat, count(*) AS n FROM res GROUP BY seat": "it has GROUP BY",
    "SELECT res_id + 1 AS n FROM res": "it has a computed column",
    "SELECT res_id FROM res UNION ALL SELECT psgr_id FROM psgr": "it has ALL",
    "SELECT res_id FROM res EXCEPT SELECT psgr_id FROM psgr": "it has EXCEPT",
    "SELECT res_id FROM res ORDER BY res_id LIMIT 3": "it has ORDER BY",
    "SELECT res_id FROM res LEFT JOIN flight ON res.flight_id = flight.flight_id": "it has a join other than INNER",
    "SELECT res_id FROM res WHERE seat = 'a' OR seat = 'b'": "it has OR, or a subquery in this place",
    "SELECT psgr_id FROM psgr WHERE meal NOT IN (SELECT seat FROM res)": "it has NOT IN",
    "SELECT res_id FROM res WHERE seat NOT IN (SELECT meal FROM psgr)": "it has NOT IN",
    "SELECT res_id FROM res WHERE flight_id <> ALL (SELECT flight_id FROM flight)": "it has a comparison with ALL",
    "SELECT r.res_id FROM (SELECT res_id FROM res) r": "it has a subquery in FROM",
    "SELECT res_id FROM res WHERE EXISTS (SELECT psgr_id + 1 FROM psgr)": "it has a computed column",
    "SELECT res_id FROM res UNION SELECT psgr_id FROM psgr LIMIT 3": "it has LIMIT",
    "(SELECT res_id FROM res LIMIT 2) UNION SELECT psgr_id FROM psgr": "it has LIMIT",
    "WITH c AS (SELECT ffn AS psgr_id FROM ff) SELECT res_id FROM res UNION SELECT psgr_id FROM c": "it has WITH",
    "SELECT p FROM ff AS x (p, q)": "it has names for the columns of a table",
    "SELECT a.res_id FROM res a ANTI JOIN flight b ON a.flight_id = b.flight_id": "it has a join other than INNER",
    "SELECT a.res_id FROM res a SEMI JOIN flight b ON a.flight_id = b.flight_id": "it has a join other than INNER",
    "SELECT seat FROM res WHERE EXISTS (SELECT * FROM psgr WHERE ffn IN (SELECT ffn FROM ff))": "it has a subquery in",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_rules_are_not_derived_for_is_refused_at_its_place(query: str) -> None:
    with pytest.raises(vk.errors.NotMaintainable) as caught:
        rules("v", query)
    assert str(caught.value).startswith(f"no rules can be derived for v: {REFUSED[query]}")
    assert caught.value.hint
    assert caught.value.place is not None


def test_a_view_that_is_not_stored_has_no_rules() -> None:
    script = f"{SCHEMA}; CREATE VIEW w AS SELECT res_id FROM res; CREATE MATERIALIZED VIEW v AS SELECT res_id FROM w"
    with pytest.raises(vk.errors.NotMaintainable, match="it has w, a view that is not stored"):
        derive_script(script)
    found = derive_script(script.replace("CREATE VIEW w", "CREATE MATERIALIZED VIEW w"))
    assert "ins-w-v" in [rule.name for rule in found]


def test_a_script_without_views() -> None:
    with pytest.raises(vk.errors.SqlError, match="there is no materialized view in it"):
        derive_script(SCHEMA)


def test_rows_are_compared_by_the_columns_that_are_selected() -> None:
    """In an insertion the view's own names mean nothing: they may be other columns of the tables, or none."""
    query = "SELECT a.res_id, b.res_id AS other, a.seat AS flight_id FROM res a, Res b WHERE a.res_id = b.flight_id"
    found = rules("v", query)
    assert "<a.res_id,b.res_id,a.seat> not in inserted v" in found["ins-res-v"]
    assert "where <res_id,other,flight_id> in" in found["del-res-v"]
    assert set(found) == {"ins-res-v", "del-res-v", "old-upd-res-v", "new-upd-res-v"}
    assert "ids (id)" not in rules("ids", "SELECT psgr_id AS id FROM psgr UNION SELECT flight_id FROM flight")
    both = rules("ids", "SELECT psgr_id AS id FROM psgr INTERSECT SELECT flight_id FROM flight")
    assert "and flight_id in" in both["ins-flight-ids"]
    assert "and flight_id not in inserted ids" not in both["ins-flight-ids"]


def test_all_columns() -> None:
    found = rules("v", "SELECT * FROM ff WHERE EXISTS (SELECT 1 FROM psgr WHERE psgr.ffn = ff.ffn)")
    assert "(select ffn, miles\n" in found["ins-ff-v"]
    assert "<ffn,miles> not in" in found["ins-ff-v"]
    assert "(select *\n" in found["ins-ff-v"]


def test_a_table_with_an_odd_name() -> None:
    script = "CREATE TABLE `odd name` (k INT PRIMARY KEY, `a b` INT NOT NULL); CREATE MATERIALIZED VIEW v AS "
    inserted = next(r for r in derive_script(f"{script} SELECT * FROM `odd name`") if r.name == "ins-`odd name`-v")
    assert "from inserted `odd name`" in str(inserted)
    assert "<k,`a b`> not in inserted v" in str(inserted)


def test_a_table_that_counts_for_and_against() -> None:
    query = (
        "SELECT a.res_id FROM res a WHERE NOT EXISTS "
        "(SELECT * FROM res b WHERE b.flight_id = a.flight_id AND b.res_id > a.res_id)"
    )
    found = rules("last", query)
    deleting, inserting = (
        [f"{event}-res-last-{kind}" for event in events]
        for kind, events in (("delete", ("del", "ins")), ("insert", ("ins", "del")))
    )
    assert list(found) == ["rematerialize-last", *deleting, *inserting]
    for name in deleting:
        assert found[name].endswith("precedes " + ",\n         ".join(inserting))


def test_not_in_without_nulls_is_like_not_exists() -> None:
    found = rules("bad_flight", "SELECT res_id FROM res WHERE flight_id NOT IN (SELECT flight_id FROM flight)")
    assert set(found) == set(rules("bad_flight"))
    assert same(
        found["del-flight-bad_flight"],
        """create rule del-flight-bad_flight
           when deleted from flight
           then insert into bad_flight
             (select res_id from res
              where flight_id in (select flight_id from deleted flight)
              and not flight_id in (select flight_id from flight)
              and res_id not in inserted bad_flight)""",
    )


def test_any_is_positive_whatever_the_comparison() -> None:
    query = "SELECT psgr_id FROM psgr WHERE ffn <> ANY (SELECT ffn FROM ff)"
    _, ff = analyze_view("v", query, query, known()).findings.verdicts
    assert ff.nesting.value == "EXISTS, IN or ANY"
    assert "psgr.ffn" not in rules("v", query)["ins-ff-v"]
    assert "where ffn <> any" in rules("v", query)["ins-ff-v"]


# updates --------------------------------------------------------------------------------------------


def test_updates_become_deletions_and_insertions(db: vk.Database) -> None:
    """Section 4.4: two updates of T2 take (u) from the view and bring (x) and (z)."""
    db.sql("CREATE TABLE t1 (a STRING, b STRING); CREATE TABLE t2 (c STRING, d STRING)")
    db.sql("INSERT INTO t1 VALUES ('x', 'y'), ('z', 'y'), ('u', 'v'); INSERT INTO t2 VALUES ('x', 'z'), ('v', 'x')")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT t1.a FROM t1, t2 WHERE t1.b = t2.c")
    assert db.sql("SELECT * FROM v").rows() == [("u",)]
    with db.transaction() as tx:
        tx.sql("UPDATE t2 SET c = 'u' WHERE d = 'x'; UPDATE t2 SET c = 'y' WHERE d = 'z'")
    assert tx.commit_info is not None
    assert tx.commit_info.changes["v"].weights() == {("u",): -1, ("x",): 1, ("z",): 1}
    assert db.verify().equal
