"""Datalog text in Souffle's syntax: reading it, normal rules, whether they are safe, and their strata.

Text becomes a syntax tree (parsing), the tree becomes checked normal rules (safety), the rules become strata. Nothing
here knows how rules are evaluated.
"""
