"""Pages of results: a list of blocks, written as one HTML file and as Markdown with pictures.

The HTML file includes its styles and pictures, so that it can be sent as one file, and needs no
script. Only games are in a folder beside it, since there may be many: if a table links to games, a
script loads them when they are opened, also when the page was opened from disk.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jinja2

from qv_env.evaluation.reports.tables import markdown_rows, markdown_text
from qv_env.files import write_bytes, write_text
from qv_env.playthroughs.playthrough import Playthrough
from qv_env.playthroughs.viewer import viewer_data, viewer_frame

REPORT_HTML, REPORT_MARKDOWN, GAMES = "report.html", "report.md", "games"

_ROWS_PER_FILE = 20  # rows of a table whose games are in one file
_CALL = "addGames("  # the beginning of a file of games


@dataclass(frozen=True)
class Heading:
    """A heading below the title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``lead`` emphasizes it as the main statement of the page."""

    text: str
    lead: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of texts, the first one the header; all columns but the first are right-aligned."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Code:
    """Preformatted text; a page shows it collapsed under ``summary``, if that is given."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture for light pages and one for dark ones.

    ``file`` is its file name beside the Markdown file. Two ``narrow`` pictures are shown side by
    side on wide pages.
    """

    file: str
    alt: str
    light: bytes
    dark: bytes
    narrow: bool = False


@dataclass(frozen=True)
class GameTable:
    """A table of any length whose cells may link to games, which the page then shows.

    Attributes:
        rows: Rows of texts, the first one the header.
        games: The games that cells link to, by row and column (the header is row 0).
    """

    rows: Sequence[Sequence[str]]
    games: Mapping[tuple[int, int], Playthrough]


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Code | Picture | GameTable


def write_page(folder: Path, title: str, blocks: Sequence[Block]) -> Path:
    """Write ``report.html`` with its games, and ``report.md`` with its pictures, into a folder.

    Args:
        folder: The folder; created if it is missing. Existing reports in it are replaced.
        title: The title.
        blocks: The content, with at most one ``GameTable``.

    Returns:
        The path of ``report.html``.

    Raises:
        OSError: The folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, Picture):
            write_bytes(folder / block.file, block.light)
    _write_games(folder / GAMES, [block for block in blocks if isinstance(block, GameTable)])
    write_text(folder / REPORT_MARKDOWN, markdown_page(title, blocks))
    write_text(folder / REPORT_HTML, html_page(title, blocks))
    return folder / REPORT_HTML


# ------------------------------------------------------------------------------------ Markdown


def markdown_page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page in Markdown; pictures are files beside it, games are in HTML only."""
    parts = [f"# {markdown_text(title)}", *(_markdown_block(block) for block in blocks)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _markdown_block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {markdown_text(text)}"
        case Paragraph(text, lead):
            return f"**{markdown_text(text)}**" if lead else markdown_text(text)
        case Bullets(items):
            return "\n".join(f"- {markdown_text(item)}" for item in items)
        case Table(rows):
            return markdown_rows(rows)
        case GameTable(rows):
            return f"{len(rows) - 1:,} rows are in {REPORT_HTML} only."
        case Code(text):
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{text}\n{fence}"
        case Picture(file, alt):
            return f"![{markdown_text(alt)}]({file})"


# ---------------------------------------------------------------------------------------- HTML

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,  # for all templates, whatever their suffix
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def html_page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page as HTML that needs no other files except those of its games."""
    with_games = any(isinstance(block, GameTable) and block.games for block in blocks)
    return _TEMPLATES.get_template("report.html").render(
        title=title,
        blocks=[_block_data(block) for block in blocks],
        viewer=_viewer_parts() if with_games else None,
    )


def _block_data(block: Block) -> dict[str, Any]:
    """Return a block for the template: its kind and texts; cells are pairs (text, link or None)."""
    match block:
        case Table(rows):
            return {"kind": "table", "rows": _linked(rows, {})}
        case GameTable(rows, games):
            links = {(row, column): f"game-{row}-{column}" for row, column in games}
            return {"kind": "games", "rows": _linked(rows, links)}
        case Picture(_, alt, light, dark, narrow):
            uris = {"light": _data_uri(light), "dark": _data_uri(dark)}
            return {"kind": "picture", "alt": alt, "narrow": narrow, **uris}
        case _:
            return {"kind": type(block).__name__.lower(), **vars(block)}


def _linked(
    rows: Sequence[Sequence[str]], links: Mapping[tuple[int, int], str]
) -> list[list[tuple[str, str | None]]]:
    """Return rows of pairs: a cell's text, and the name of the game that it links to, or None."""
    return [[(text, links.get((i, k))) for k, text in enumerate(row)] for i, row in enumerate(rows)]


def _viewer_parts() -> dict[str, Any]:
    """Return the compressed viewer page without data, in which the page's script shows games."""
    frame = viewer_frame()
    return {"frame": [_packed(frame.before), _packed(frame.after)], "rows": _ROWS_PER_FILE}


# --------------------------------------------------------------------------------------- games


def games_files(block: GameTable) -> Iterator[tuple[str, str]]:
    """Yield the names and contents of the files of a table's games.

    ``N.js`` has the games of the rows from N * ``_ROWS_PER_FILE`` on. It is a script, since a page
    opened from disk can load nothing else, and calls ``addGames`` with an object: for each row with
    games, by its number, the compressed viewer data, one line per cell (empty if the cell links to
    no game).
    """
    rows: dict[int, list[str]] = {}
    for (row, column), game in block.games.items():
        rows.setdefault(row, [""] * len(block.rows[row]))[column] = viewer_data(game)
    files: dict[int, dict[int, str]] = {}
    for row, cells in sorted(rows.items()):
        files.setdefault(row // _ROWS_PER_FILE, {})[row] = _packed("\n".join(cells))
    for number, packed in files.items():
        yield f"{number}.js", f"{_CALL}{json.dumps(packed)});\n"


def _write_games(folder: Path, blocks: Sequence[GameTable]) -> None:
    """Write the files of the games, and remove those of an earlier report."""
    written = set()
    for block in blocks:
        for name, content in games_files(block):
            folder.mkdir(exist_ok=True)
            write_text(folder / name, content)
            written.add(name)
    for path in folder.glob("*.js"):
        if path.name not in written and path.read_bytes().startswith(_CALL.encode()):
            path.unlink()


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
