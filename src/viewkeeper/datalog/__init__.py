"""Datalog text in Souffle's syntax: parsing, normal rules, safety checks and strata.

Text becomes a syntax tree (parsing), the tree becomes checked normal rules (safety), the rules become strata. Nothing
here knows how rules are evaluated.
"""
