"""Write the completions and the man page below ``share``: ``uv run python docs/make_share.py``, from the root of the repository.

Both come from the parsers of the command line, and a contract test compares them, so that they cannot go stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

SHARE = HERE.parent / "share"
FILES = ("config", "junit", "output", "paths")
"""Arguments that name files or folders."""

BASH = r"""
_loadlens() {
  local line="${COMP_LINE:0:COMP_POINT}" word="" before="" view="" what="" each
  local -a words
  read -ra words <<< "$line"
  if [[ "$line" != *[[:space:]] ]]; then
    word="${words[${#words[@]}-1]}"
    words=("${words[@]:0:${#words[@]}-1}")
  fi
  # Without the "=" at which bash splits words.
  COMP_WORDS=("${words[@]}" "$word")
  COMP_CWORD=${#words[@]}
  for each in "${words[@]}"; do
    [[ -z "$view" && -n "$(_loadlens_words "$each" table)" ]] && view="$each"
    before="$each"
  done
  case "$before" in
    -o|--option) what=option ;;
    --table) what=table ;;
  esac
  if [[ -z "$view" || -z "$what" ]]; then
    _shtab_loadlens loadlens "$word" "$before"
    return
  fi
  COMPREPLY=()
  while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -W "$(_loadlens_words "$view" "$what")" -- "$word")
  [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
  if [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
}

complete -o bashdefault -F _loadlens loadlens
"""
"""Completes what depends on the view; shtab's function does the rest."""

ZSH = r"""
_loadlens_offer() {
  local each view
  local -a every
  for each in $words; do
    [[ -n "$(_loadlens_words "$each" table)" ]] && view="$each" && break
  done
  every=($(_loadlens_words "$view" "$1"))
  compadd -S '' -- ${(M)every:#*=}
  compadd -- ${every:#*=}
}
_loadlens_options() { _loadlens_offer option }
_loadlens_tables() { _loadlens_offer table }
"""

EXAMPLES = (
    ("loadlens /var/metrics", "watch a folder"),
    ("loadlens report broker-load /var/metrics -o fail=3 --table failover_brokers --format text", "what a broker's death does"),
    ("loadlens check ring-placement /var/metrics || mail -s 'ring' ops", "in cron"),
    ("loadlens report query-profile /var/metrics --format prometheus --output /var/lib/node_exporter/queries.prom",
     "numbers for the textfile collector"),
    ("loadlens feeds broker-load --prometheus http://prometheus:9090 | sh", "get a week of data"),
)  # fmt: skip


def whole() -> argparse.ArgumentParser:
    """Return one parser with all commands, as completion and page need it."""
    from tui.cli.arguments import COMMANDS, parser

    top = argparse.ArgumentParser("loadlens", parents=[parser("")], add_help=False, allow_abbrev=False)
    for action in list(top._actions):
        if action.dest == "paths":
            top._remove_action(action)
            for group in top._action_groups:
                group._group_actions = [each for each in group._group_actions if each is not action]
    commands = top.add_subparsers(metavar="COMMAND", dest="command")
    for name in COMMANDS:
        made = parser(name)
        commands.add_parser(name, parents=[made], add_help=False, help=(made.description or "").split(". ")[0])
    return top


def words() -> dict[str, dict[str, str]]:
    """Return by view what its ``option`` (KEY=, or KEY=VALUE where the values are known) and its ``table`` may be."""
    from engine.core.parameters import options
    from engine.views import VIEWS

    made = {}
    for entry in VIEWS:
        view = entry.load()
        known = ["scenario="]
        for each in options(view.parameters):
            values = each.choices or (("true", "false") if each.type is bool else ("",))
            known += [f"{each.key}={value}" for value in values]
        made[entry.name] = {"option": " ".join(sorted(known)), "table": " ".join(table.name for table in view.tables)}
    return made


def _function() -> str:
    """Return a shell function, for bash and zsh, that prints those words: no program is started for a completion."""
    cases = (f'    "{view} {what}") echo "{text}" ;;' for view, by in words().items() for what, text in by.items())
    return "\n".join(("_loadlens_words() {", '  case "$1 $2" in', *cases, "  esac", "}"))


def _fish() -> Iterator[str]:
    """Yield the same for fish."""
    for view, by in words().items():
        for what, text in by.items():
            short = " -s o" if what == "option" else ""
            seen = f"__fish_seen_subcommand_from report check fleet; and __fish_seen_subcommand_from {view}"
            yield f"complete -c loadlens -n '{seen}'{short} -l {what} -x -a '{text}'"


def completions() -> Iterator[tuple[Path, str]]:
    """Yield path and text of the completion of each shell."""
    import shtab

    from engine.views import VIEWS

    names = [entry.name for entry in VIEWS]
    parser = whole()
    parsers = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers += action.choices.values()
    for one in parsers:
        for action in one._actions:
            if action.dest == "view" and action.choices is None:
                action.choices = names
            if action.dest in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            if action.dest in ("option", "table"):
                action.complete = {"zsh": f"_loadlens_{action.dest}s"}  # type: ignore[attr-defined]
    bash = shtab.complete(parser, shell="bash", preamble=_function()).rstrip("\n")
    yield SHARE / "bash-completion/completions/loadlens", bash[: bash.rindex("\n")].rstrip("\n") + "\n" + BASH
    zsh = shtab.complete(parser, shell="zsh", preamble=_function() + ZSH).rstrip("\n")
    yield SHARE / "zsh/site-functions/_loadlens", zsh + "\n"
    fish = shtab.complete(parser, shell="fish").rstrip("\n")
    yield SHARE / "fish/vendor_completions.d/loadlens.fish", "\n".join([fish, "", *_fish()]) + "\n"


def _roff(text: str) -> str:
    """Escape what roff would take for a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else "")
        names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in action.option_strings)
        shown = f" \\fI{_roff(str(value))}\\fR" if value and action.nargs != 0 else ""
        yield f".TP\n{(names + shown).strip()}\n{_roff(' '.join((action.help or '').replace('%%', '%').split()))}"


def page() -> str:
    """Return the man page."""
    from engine import __version__
    from tui.cli.arguments import COMMANDS, parser

    out = [f'.TH LOADLENS 1 "" "loadlens {__version__}" "User Commands"', ".SH NAME",
           "loadlens \\- where the load comes from, and what happens if a node dies", ".SH SYNOPSIS"]  # fmt: skip
    for name in ("", *COMMANDS):
        usage = " ".join(parser(name).format_usage().removeprefix("usage:").split())
        out.append(f".B {_roff(usage)}\n.br")
    out += [".SH DESCRIPTION", _roff("loadlens watches local files and folders and recomputes five views as they change. "
            "Nothing is sent anywhere; files are only read.")]  # fmt: skip
    for name in ("", *COMMANDS):
        made = parser(name)
        out.append(f'.SH "{_roff(made.prog.upper())}"' if name else ".SH OPTIONS")
        if name:
            out.append(_roff(" ".join((made.description or "").split())))
        out += _options(made)
    out += [".SH EXIT STATUS", "0 fine, 1 finding, 2 wrong usage, 3 no usable input, 130 interrupted.", ".SH FILES",
            _roff("loadlens paths prints where settings (TOML), state, log and cache lie."), ".SH ENVIRONMENT",
            ".TP\n.B NO_COLOR\nno colours\n.TP\n.B XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME\nfolders of those files",
            ".SH EXAMPLES"]  # fmt: skip
    for command, about in EXAMPLES:
        out.append(f".TP\n{_roff(about)}\n.nf\n{_roff(command)}\n.fi")
    return "\n".join(out) + "\n"


def pages() -> dict[Path, str]:
    """Return all files with their texts."""
    return {**dict(completions()), SHARE / "man/man1/loadlens.1": page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
