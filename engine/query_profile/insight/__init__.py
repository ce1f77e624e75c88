"""What is concluded from fits: predictions, trust, what-if."""
