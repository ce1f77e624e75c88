"""The tabs, one package per view; docs/screen.md tells how to write one."""
