"""Readers of what a timeline server, its client tools and Tez itself keep of applications."""
