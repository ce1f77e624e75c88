"""The process: its terminal, log, garbage collection and clipboard. No widgets."""
