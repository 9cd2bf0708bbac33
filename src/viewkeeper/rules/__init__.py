"""Active rules and assertions: events, order, conditions and actions.

The stages of a commit call this package through `transaction.hooks`; actions run statements through `rules.actions`.
"""
