"""Facts about expressions: keys, safe references, polarity, relevance, ranges, and what is fallible."""
