"""Our two themes. The 16-colour ones, ``ansi-dark`` and ``ansi-light``, are Textual's: the terminal's own palette."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

# Two accents with one meaning each: blue is where you are and what you can press, teal is an amount. Severities and what a
# scenario adds have the warm colours.
# Text colours are given, not derived: they must keep a contrast of 4.5 against background and panel after rounding to 256
# colours.
DARK = Theme(
    name="loadlens-dark",
    primary="#5f87af",
    secondary="#5fafaf",
    accent="#87afd7",
    warning="#d7af5f",
    error="#ff8787",
    success="#87af87",
    foreground="#d0d0d0",
    background="#121212",
    surface="#1c1c1c",
    panel="#303030",
    dark=True,
    variables={
        "text-muted": "#949494",
        "text-primary": "#87afd7",
        "text-secondary": "#5fafaf",
        "text-accent": "#ffd787",
        "text-warning": "#ffaf5f",
        "text-error": "#ff8787",
        "text-success": "#87d787",
        "block-cursor-foreground": "#121212",
        "block-cursor-background": "#87afd7",
        "block-cursor-text-style": "bold",
        "footer-key-foreground": "#87afd7",
        "scrollbar": "#444444",
        "scrollbar-background": "#1c1c1c",
        "scrollbar-background-hover": "#1c1c1c",
        "scrollbar-hover": "#585858",
        "scrollbar-active": "#87afd7",
    },
)
LIGHT = Theme(
    name="loadlens-light",
    primary="#005faf",
    secondary="#005f5f",
    accent="#005faf",
    warning="#875f00",
    error="#af0000",
    success="#005f00",
    foreground="#262626",
    background="#ffffff",
    surface="#eeeeee",
    panel="#dadada",
    dark=False,
    variables={
        "text-muted": "#4e4e4e",
        "text-primary": "#005faf",
        "text-secondary": "#007f7f",
        "text-accent": "#5f5f00",
        "text-warning": "#875f00",
        "text-error": "#af0000",
        "text-success": "#005f00",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#005faf",
        "block-cursor-text-style": "bold",
        "footer-key-foreground": "#005faf",
        "scrollbar": "#bcbcbc",
        "scrollbar-background": "#eeeeee",
        "scrollbar-background-hover": "#eeeeee",
        "scrollbar-hover": "#9e9e9e",
        "scrollbar-active": "#005faf",
    },
)
THEMES: tuple[Theme, ...] = (DARK, LIGHT)
CYCLE: tuple[str, ...] = ("loadlens-dark", "loadlens-light", "ansi-dark", "ansi-light")
"""Themes in the order in which the theme key steps through them."""


def theme_for(wanted: str, environ: Mapping[str, str], known: tuple[str, ...]) -> tuple[str, str]:
    """Return the name of the Textual theme for the setting ``wanted``, and a complaint (empty if it can be used).

    ``auto`` is dark. NO_COLOR and 16 colours turn dark and light into their ``ansi-`` forms, the terminal's own palette,
    since rounded colours are unreadable. ``known``: names of all themes.
    """
    many = environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    many = many or any(name in environ.get("TERM", "") for name in ("256color", "direct", "kitty", "ghostty"))
    family = "loadlens" if many and "NO_COLOR" not in environ else "ansi"
    if wanted in ("", "auto"):
        wanted = "dark"
    if wanted in ("dark", "light"):
        return f"{family}-{wanted}", ""
    if wanted in known:
        return wanted, ""
    return f"{family}-dark", f"no theme {wanted!r}; there are dark, light, {', '.join(sorted(known))}"
