"""Programs that can be read, for several tests."""

from __future__ import annotations

CONTRACT = """
.decl edge(x:symbol, y:symbol)
.input edge                      // a base table; without .input/.output a relation is virtual
.decl path(x:symbol, y:symbol)
.output path                     // a materialized view named path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
lonely(x) :- node(x), !path(x, _).
deg(x, n) :- node(x), n = count : { edge(x, _) }.
"""

READABLE = (
    "",
    "// nothing but a comment",
    "/* nothing\n   but a comment */",
    CONTRACT,
    ".decl a, b(x:number, y:unsigned, z:float, s:symbol)",
    ".decl a(count:INT, x:BigInt, y:Decimal(10, 2), d:DATE, t:timestamp, b:boolean, s:string, f:double, r:real)",
    ".input a, b\n.output c, d",
    'edge("a", "b").',
    "p(1). p(2).p(3).\nq(-4).",
    "p(0x1F, 0b101, 7u, 1.50, -2.5, 0xfu).",
    r'p("a \"quoted\" \\ word", "line\nnext\ttab", "it\'s", "", "// no comment", "ä €").',
    "p(true, false) :- q(x), x = true, y = false, r(y).",
    "p(x), q(x) :- r(x).",
    "p(x) :- a(x); b(x), c(x); d(x).",
    "p(x) :- a(x), (b(x); c(x), d(x)), (e(x)).",
    "p(x) :- ((a(x), b(x)), ((c(x)))).",
    'p(x) :- q(x), !r(x), !s(x, _), !contains("a", x), !match("a.*", x).',
    'p(x) :- q(x), x = 1, x != 2, x < 3, x <= 4, x > 5, x >= 6, contains("a", x), match("b", x), true, false.',
    "p(1 + 2 * 3 ^ 4 ^ 5 - 6 / 7 % 8).",
    "p((1 + 2) * (3 - (4 - 5)) ^ 2).",
    "p(-x, - -3, -(-3), -(3), -x ^ 2, (-2) ^ 2, 2 ^ -3, bnot x, bnot -x, -bnot x) :- q(x).",
    "p(x band y bor z bxor 1 bshl 2 bshr 3) :- q(x, y, z).",
    "p((x bor y) band (z + 1)) :- q(x, y, z).",
    "p(x) :- (x + 1) * 2 = 4, ((q(x))), (x) = 1.",
    'p(cat("a", x, "b"), strlen(x), substr(x, 0, 1), ord(x), to_number(x), to_string(1), to_float("1.5")) :- q(x).',
    "p(min(x, y), max(1, 2, 3), @f(x), @g()) :- q(x, y).",
    "p(n) :- n = count : edge(_, _).",
    "p(n) :- n = 2 * sum s + 1 : { a(s), s > 0 } + 2.",
    "p(n, m) :- n = min x : a(x), m = max (x) * 2 : { a(x) }, mean x : { a(x) } < 3.",
    "b(s, count : { c(s, _) }) :- w(s).",
    "a(l, x) :- a(l, _), x = min y : { a(k, y), y < max y : { a(l, y) } }, k = l.",
    "+ path(x,y) :- ferry(x,y).",
    "- path(x,\n  y) :- ferry(x, y).",
    '- edge("a", "b").\n+edge("a", "c").',
    "?x_1(?y, _z, input, inline, range) :- q(?y, _z, input, inline, range).",
)
