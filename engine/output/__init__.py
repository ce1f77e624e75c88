"""Results as text for other programs: JSON, CSV, Markdown, Prometheus' text and JUnit."""
