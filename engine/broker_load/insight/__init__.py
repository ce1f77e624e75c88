"""What goes beyond Cruise Control: failures, what-if, data quality, differences."""
