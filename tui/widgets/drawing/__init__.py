"""Drawing on terminal lines: fragments, canvases, axes, bars and plots."""
