"""Recursive relations: evaluated to their fixpoint, and maintained by propagating changes and filtering them."""
