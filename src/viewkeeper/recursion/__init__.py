"""Recursive relations: evaluated to their fixpoint, and kept true by propagating changes and filtering them."""
