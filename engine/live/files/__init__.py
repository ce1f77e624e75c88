"""Which files there are, what is known of each, and when to look again."""
