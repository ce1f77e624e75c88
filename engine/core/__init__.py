"""The contract that a view is written against; imports nothing of ``engine`` but itself."""
