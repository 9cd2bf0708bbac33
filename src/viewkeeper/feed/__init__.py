"""Feeds: the net changes of relations and queries, epoch by epoch, for those who subscribe to them."""
