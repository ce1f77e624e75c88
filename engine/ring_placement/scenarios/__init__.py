"""What failures and other choices do to placements."""
