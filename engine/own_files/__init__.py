"""The program's own files: settings, state and named scenarios; for their owner alone, bounded and written whole."""
