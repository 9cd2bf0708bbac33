"""Many small transactions in a row, with flush, compaction and vacuum beside them."""
