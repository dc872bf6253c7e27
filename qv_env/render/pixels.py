"""Pictures of a game: sprites, drawn once with Pillow, are blended onto the table with NumPy.

:func:`draw` uses only what the player can see: of the stock it reads only the size. Sprites are
drawn on first use, at four times their size, and scaled down; a frame is a copy of the empty table
and some fifty blits.

Texts are set in Aileron (Sora Sagano; CC0 1.0), the default font included with Pillow, so that
pictures do not depend on the fonts of a machine. All else is drawn from ``qv_env.render.art``.

Pillow (the extra ``render``) is imported when the first sprite is drawn.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

from qv_env.actions import COLUMN, NUM_COLUMNS, NUM_FOUNDATIONS
from qv_env.cards import NUM_CARDS, NUM_RANKS, NUM_SUITS, RANK_LETTERS
from qv_env.render import art, layout
from qv_env.render.layout import CARD_HEIGHT, CARD_WIDTH, CORNER, LABELS, Label, LastMove, Rect
from qv_env.rules import NO_CARD, REFUSALS, Game, foundation_top, is_won, waste_top

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

_SCALE = 4  # sprites are drawn this much larger, then scaled down
_PAD = 6  # around a card: room for shadows and frames
_SHADOW = 3  # how far a card's shadow reaches
_JACK = 10  # the first rank with a crown

_DEPTHS = ((1, 1), (16, 2), (40, 3))  # from so many cards on, a pile is drawn so many cards deep


def _pillow() -> tuple[Any, Any, Any]:
    """Import Pillow's modules Image, ImageDraw and ImageFont."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise gym.error.DependencyNotInstalled(
            "pictures need Pillow: pip install 'qv-env[render]'"
        ) from error
    return Image, ImageDraw, ImageFont


# ------------------------------------------------------------------------------------ sprites


class _Sprite(NamedTuple):
    """A picture to blend onto others.

    Attributes:
        colour: uint16 (height, width, 3), premultiplied by the opacity.
        keep: uint16 (height, width, 3), 0..256: the weight of the picture below, times 256.
    """

    colour: np.ndarray
    keep: np.ndarray


class _Canvas:
    """A transparent picture of ``width`` x ``height`` pixels, drawn larger and scaled down."""

    def __init__(self, width: int, height: int) -> None:
        image, draw, self._fonts = _pillow()
        size = (width * _SCALE, height * _SCALE)
        self._new = image
        self.image: Image.Image = image.new("RGBA", size, (0, 0, 0, 0))
        self._draws = draw
        self._size = size

    def _layer(self) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        layer = self._new.new("RGBA", self._size, (0, 0, 0, 0))
        return layer, self._draws.Draw(layer)

    def _lay(self, layer: Image.Image) -> None:
        self.image = self._new.alpha_composite(self.image, layer)

    def panel(
        self,
        box: tuple[float, float, float, float],
        radius: float,
        fill: art.Colour | None = None,
        line: art.Colour | None = None,
        width: float = 1,
        alpha: int = 255,
    ) -> None:
        """Draw a rectangle with round corners; ``box`` is left, top, right, bottom."""
        layer, draw = self._layer()
        left, top, right, bottom = (edge * _SCALE for edge in box)
        draw.rounded_rectangle(
            (left, top, right - 1, bottom - 1),
            radius * _SCALE,
            fill=(*fill, alpha) if fill else None,
            outline=(*line, alpha) if line else None,
            width=round(width * _SCALE) if line else 0,
        )
        self._lay(layer)

    def shape(
        self, path: str, x: float, y: float, size: float, colour: art.Colour, alpha: int = 255
    ) -> None:
        """Draw a path of the art in a square with its upper left corner at x, y."""
        layer, draw = self._layer()
        unit = size * _SCALE / 100
        for polygon in art.flatten(path):
            points = [(x * _SCALE + px * unit, y * _SCALE + py * unit) for px, py in polygon]
            draw.polygon(points, fill=(*colour, alpha))
        self._lay(layer)

    def text(
        self,
        text: str,
        x: float,
        y: float,
        size: float,
        colour: art.Colour,
        anchor: str = "ls",
        weight: float = 0.0,
        alpha: int = 255,
    ) -> float:
        """Draw a line of text and return its width; ``weight`` is added to the stroke width."""
        layer, draw = self._layer()
        font = _font(round(size * _SCALE))
        draw.text(
            (x * _SCALE, y * _SCALE),
            text,
            font=font,
            fill=(*colour, alpha),
            anchor=anchor,
            stroke_width=round(weight * _SCALE),
            stroke_fill=(*colour, alpha),
        )
        self._lay(layer)
        return font.getlength(text) / _SCALE

    def dash(self, period: float, length: float) -> None:
        """Cut the picture into slanted stripes, so that its lines become dashed."""
        y, x = np.mgrid[0 : self._size[1], 0 : self._size[0]]
        kept = (x + y) % round(period * _SCALE) < round(length * _SCALE)
        pixels = np.array(self.image)
        pixels[~kept] = 0
        self.image = self._new.fromarray(pixels)

    def sprite(self) -> _Sprite:
        """Return the picture at its final size."""
        # Colours are premultiplied by opacity before scaling; otherwise dark fringes would show.
        pixels = np.asarray(self.image.convert("RGBa").reduce(_SCALE), dtype=np.uint16)
        opacity = np.repeat(pixels[:, :, 3:], 3, axis=2).astype(np.uint32)
        keep = (256 - (opacity * 256 + 127) // 255).astype(np.uint16)
        return _Sprite(np.ascontiguousarray(pixels[:, :, :3]), keep)


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont:
    _, _, fonts = _pillow()
    font: ImageFont.FreeTypeFont = fonts.load_default(size)
    return font


def text_width(text: str, size: float) -> float:
    """Return the width of a text in pixels, at a given font size."""
    return float(_font(round(size * _SCALE)).getlength(text)) / _SCALE


def _card_canvas() -> _Canvas:
    """Return a canvas for a card and the padding around it, with the card's shadow."""
    canvas = _Canvas(CARD_WIDTH + 2 * _PAD, CARD_HEIGHT + 2 * _PAD)
    for spread in range(_SHADOW, 0, -1):
        box = (
            _PAD - spread * 0.6,
            _PAD - spread * 0.5,
            _PAD + CARD_WIDTH + spread * 0.6,
            _PAD + CARD_HEIGHT + spread * 0.9,
        )
        canvas.panel(box, CORNER + spread, fill=(0, 20, 18), alpha=34)
    return canvas


_CARD_BOX = (_PAD, _PAD, _PAD + CARD_WIDTH, _PAD + CARD_HEIGHT)


@cache
def _face(card_id: int, tight: bool) -> _Sprite:
    """Return a card, face up; with the small index if ``tight`` is set."""
    suit, rank = divmod(card_id - 1, NUM_RANKS)
    colour, path = art.SUIT_COLOURS[suit], art.SUIT_PATHS[suit]
    text = RANK_LETTERS[rank].replace("T", "10")
    canvas = _card_canvas()
    canvas.panel(_CARD_BOX, CORNER, fill=art.FACE, line=art.EDGE, width=0.75)

    index = layout.index_place(Rect(_PAD, _PAD, CARD_WIDTH, CARD_HEIGHT), tight)
    size = index.height / 0.74  # font size: its capitals are 0.74 of the size
    pip = index.height * 0.92
    width = canvas.text(text, index.x, index.bottom, size, colour, weight=0.5 if tight else 0.8)
    canvas.shape(path, index.x + width + 3, index.bottom - pip + 0.5, pip, colour)

    middle = _PAD + CARD_WIDTH / 2
    if rank >= _JACK:
        top = _PAD + layout.MAX_STEP + 2  # hidden when the card is covered
        panel = (_PAD + 11, top, _PAD + CARD_WIDTH - 11, _PAD + CARD_HEIGHT - 8)
        canvas.panel(panel, 5, fill=art.COURT, line=colour, width=0.75)
        canvas.shape(art.CROWN_PATHS[rank - _JACK], middle - 14, top, 28, colour)
        canvas.shape(path, middle - 17, top + 26, 34, colour)
    else:
        big = 50 if rank else 58
        canvas.shape(path, middle - big / 2, _PAD + 72 - big / 2, big, colour)
    return canvas.sprite()


@cache
def _back() -> _Sprite:
    canvas = _card_canvas()
    canvas.panel(_CARD_BOX, CORNER, fill=art.FACE, line=art.EDGE, width=0.75)
    left, top, right, bottom = _CARD_BOX
    canvas.panel((left + 4, top + 4, right - 4, bottom - 4), CORNER - 3, fill=art.BACK)
    for row in range(9):
        diamonds = 6 - row % 2
        for i in range(diamonds):
            x = (left + right) / 2 + (i - (diamonds - 1) / 2) * 12
            y = (top + bottom) / 2 + (row - 4) * 11
            canvas.shape(art.SUIT_PATHS[2], x - 5, y - 5, 10, art.BACK_LINE, alpha=120)
    return canvas.sprite()


@cache
def _place_outline(suit: int | None) -> _Sprite:
    """Return an empty place; that of a foundation shows its suit."""
    canvas = _Canvas(CARD_WIDTH + 2 * _PAD, CARD_HEIGHT + 2 * _PAD)
    canvas.panel(_CARD_BOX, CORNER, fill=(0, 24, 22), alpha=52)
    canvas.panel(_CARD_BOX, CORNER, line=art.FAINT_TEXT, width=1.5, alpha=90)
    if suit is not None:
        x, y = _PAD + CARD_WIDTH / 2 - 23, _PAD + CARD_HEIGHT / 2 - 23
        canvas.shape(art.SUIT_PATHS[suit], x, y, 46, art.FAINT_TEXT, alpha=120)
    return canvas.sprite()


@cache
def _frame() -> _Sprite:
    """Return the frame around the card that moved last; it does not cover the index."""
    canvas = _Canvas(CARD_WIDTH + 2 * _PAD, CARD_HEIGHT + 2 * _PAD)
    left, top, right, bottom = _CARD_BOX
    for spread, alpha in ((3.0, 70), (1.5, 255)):
        box = (left - spread, top - spread, right + spread, bottom + spread)
        canvas.panel(box, CORNER + spread, line=art.MARK, width=4, alpha=alpha)
    return canvas.sprite()


@cache
def _source_outline() -> _Sprite:
    """Return the outline of the place that the moved card left."""
    canvas = _Canvas(CARD_WIDTH + 2 * _PAD, CARD_HEIGHT + 2 * _PAD)
    left, top, right, bottom = _CARD_BOX
    canvas.panel((left - 3, top - 3, right + 3, bottom + 3), CORNER + 3, line=art.MARK, width=2.25)
    canvas.dash(12, 7)
    return canvas.sprite()


@lru_cache(maxsize=1024)
def _text(text: str, size: int, colour: art.Colour, weight: float = 0.0) -> _Sprite:
    """Return a line of text whose capitals are vertically centred."""
    width = round(text_width(text, size)) + 4
    canvas = _Canvas(width, size + 4)
    canvas.text(text, 2, 2 + size * 0.5 + size * 0.36, size, colour, weight=weight)
    return canvas.sprite()


@lru_cache(maxsize=256)
def _pill(text: str, width: int, height: int, size: int) -> _Sprite:
    """Return a count on a dark background."""
    canvas = _Canvas(width, height)
    canvas.panel((0, 0, width, height), height / 2, fill=art.HEADER, alpha=255)
    canvas.panel((0, 0, width, height), height / 2, line=art.FAINT_TEXT, width=1, alpha=160)
    canvas.text(text, width / 2, height / 2 + size * 0.36, size, art.TEXT, anchor="ms", weight=0.35)
    return canvas.sprite()


@lru_cache(maxsize=16)
def _won(score: int, moves: int) -> _Sprite:
    """Return the banner that a won game shows on its empty columns."""
    _, _, width, height = LABELS["won"].place
    canvas = _Canvas(width, height)
    canvas.panel((0, 0, width, height), 16, fill=art.HEADER, alpha=235)
    canvas.panel((5, 5, width - 5, height - 5), 12, line=art.MARK, width=1.5)
    middle = width / 2
    canvas.text("Won", middle, 74, LABELS["won"].size, art.MARK, anchor="ms", weight=1.2)
    line = f"{score} points in {moves} moves"
    canvas.text(line, middle, 114, 24, art.TEXT, anchor="ms", weight=0.3)
    for suit, side in enumerate((-2, -1, 1, 2)):
        x = middle + side * 62 + (40 if side > 0 else -40)
        canvas.shape(art.SUIT_PATHS[suit], x - 18, 34, 36, art.TEXT, alpha=200)
    return canvas.sprite()


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """Return the empty table with all places and names: uint8 (640, 960, 3), read-only."""
    y, x = np.mgrid[0 : layout.HEIGHT, 0 : layout.WIDTH]
    across = (x - layout.WIDTH / 2) / (layout.WIDTH / 2)
    down = (y - layout.HEIGHT * 0.45) / (layout.HEIGHT * 0.6)
    darkness = np.clip((across**2 + down**2) / 1.9, 0, 1)[:, :, None]
    light, dark = (np.array(colour, dtype=float) for colour in (art.FELT_LIGHT, art.FELT_DARK))
    frame = np.round(light + (dark - light) * darkness).astype(np.uint8)
    frame[: layout.STOCK_PLACE.y - 8] = art.HEADER

    _blit(frame, _place_outline(None), layout.STOCK_PLACE)
    _blit(frame, _place_outline(None), layout.WASTE_PLACE)
    for f, place in enumerate(layout.FOUNDATION_PLACES):
        _blit(frame, _place_outline(f % NUM_SUITS), place)
        _write(frame, LABELS[f"f{f + 1}"], f"f{f + 1}", art.FAINT_TEXT)
    for c, place in enumerate(layout.COLUMN_PLACES):
        _blit(frame, _place_outline(None), place)
        _write(frame, LABELS[f"c{c + 1}"], f"c{c + 1}", art.FAINT_TEXT)
    frame.setflags(write=False)
    return frame


# ------------------------------------------------------------------------------------- drawing


def _blend(frame: np.ndarray, sprite: _Sprite, x: int, y: int, height: int | None = None) -> None:
    """Blend a sprite, or its first rows, onto a frame, with its upper left corner at x, y."""
    colour, keep = sprite
    rows, columns, _ = colour.shape
    if height is not None:
        rows = min(rows, height)
    under = frame[y : y + rows, x : x + columns]
    mixed = np.multiply(under, keep[:rows], dtype=np.uint16)
    mixed >>= 8
    mixed += colour[:rows]
    under[...] = mixed


def _blit(frame: np.ndarray, sprite: _Sprite, place: Rect, rows: int | None = None) -> None:
    """Blend a card's sprite onto its place; for a covered card only the visible rows."""
    height = None if rows is None else _PAD + rows
    _blend(frame, sprite, place.x - _PAD, place.y - _PAD, height)


def _write(
    frame: np.ndarray, label: Label, text: str, colour: art.Colour, weight: float = 0.0
) -> int:
    """Write a text at a label's place; return the x of its left end."""
    sprite = _text(text, label.size, colour, weight)
    height, width, _ = sprite.colour.shape
    place = label.place
    x = {
        "left": place.x,
        "center": place.x + (place.width - width) // 2,
        "right": place.right - width,
    }[label.align]
    _blend(frame, sprite, x, place.y + (place.height - height) // 2)
    return x


def _write_number(frame: np.ndarray, name: str, text: str) -> None:
    """Write a number of the header, with its name before it."""
    label = LABELS[name]
    left = _write(frame, label, text, art.TEXT, weight=0.4)
    end = Rect(label.place.x, label.place.y + 2, left - 4 - label.place.x, label.place.height)
    _write(frame, Label(end, "right", 14), name, art.FAINT_TEXT)


def _fits(text: str, label: Label) -> bool:
    return text_width(text, label.size) + 4 <= label.place.width


@lru_cache(maxsize=64)
def _lines(text: str, label: Label) -> list[str]:
    """Return a text in one or two lines that fit a label's width; a longer one is cut."""
    if _fits(text, label):
        return [text]
    words = text.split()
    first = words.pop(0)
    while words and _fits(f"{first} {words[0]}", label):
        first += " " + words.pop(0)
    second = " ".join(words)
    if not _fits(second, label):
        while second and not _fits(second + "…", label):
            second = second[:-1]
        second = second.rstrip() + "…"
    while not _fits(first, label):  # a single word that is too long
        first = first[:-1]
    return [first, second]


def _write_note(frame: np.ndarray, text: str) -> None:
    label = LABELS["note"]
    lines = _lines(text, label)
    height = label.place.height // len(lines)
    for i, line in enumerate(lines):
        place = label.place._replace(y=label.place.y + i * height, height=height)
        _write(frame, label._replace(place=place), line, art.MARK)


def _draw_pile(frame: np.ndarray, sprite: _Sprite, place: Rect, size: int) -> None:
    """Draw the stock or the waste, in a depth according to its size."""
    depth = max((depth for least, depth in _DEPTHS if size >= least), default=0)
    for below in range(depth - 1, 0, -1):
        _blit(frame, _back(), place._replace(x=place.x + below, y=place.y + 2 * below))
    if size:
        _blit(frame, sprite, place)


def _draw_count(frame: np.ndarray, size: int, name: str) -> None:
    label = LABELS[name]
    x, y, width, height = label.place
    _blend(frame, _pill(str(size), width, height, label.size), x, y)


def draw(game: Game, deal: str = "", move: LastMove | None = None, note: str = "") -> np.ndarray:
    """Return a picture of a game.

    Args:
        game: A record of ``qv_env.rules.STATE``. The order of its stock has no influence.
        deal: The deal's code, shown in the header.
        move: The last move, which is marked: with an outline where the card was, and a frame
            around the card.
        note: A note for the header, such as why an action was refused; cut if it is too long.

    Returns:
        RGB, uint8 (640, 960, 3), a fresh array.

    Raises:
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    frame = _table().copy()
    heights = game["heights"].tolist()
    stock_size, waste_size = int(game["stock_size"]), int(game["waste_size"])

    if move is not None:
        height = heights[move.source_index] if move.source == COLUMN else 0
        if move.source == COLUMN:  # cards may cover the outline
            _blit(frame, _source_outline(), layout.source_place(move, height))

    _draw_pile(frame, _back(), layout.STOCK_PLACE, stock_size)
    top = int(waste_top(game))
    if top != NO_CARD:
        _draw_pile(frame, _face(top, False), layout.WASTE_PLACE, waste_size)
    for f in range(NUM_FOUNDATIONS):
        top = int(foundation_top(game, f))
        if top != NO_CARD:
            _blit(frame, _face(top, False), layout.FOUNDATION_PLACES[f])
    columns = game["columns"].tolist()
    for c in range(NUM_COLUMNS):
        height, place = heights[c], layout.COLUMN_PLACES[c]
        fan, tight = layout.FANS[height], layout.TIGHT[height]
        for row in range(height):
            rows = None if row == height - 1 else fan[row + 1] - fan[row] + CORNER
            sprite = _face(columns[c][row], tight)
            _blit(frame, sprite, place._replace(y=place.y + fan[row]), rows)

    if move is not None:
        if move.source != COLUMN:
            _blit(frame, _source_outline(), layout.source_place(move, 0))
        height = heights[move.target_index] if move.target == COLUMN else 0
        _blit(frame, _frame(), layout.target_place(move, height))
    _draw_count(frame, stock_size, "stock")
    _draw_count(frame, waste_size, "waste")

    _write(frame, LABELS["deal"], deal or "Quarante Voleurs", art.FAINT_TEXT)
    if note:
        _write_note(frame, note)
    cards = int(game["foundations"].sum())
    _write_number(frame, "cards", f"{cards}/{NUM_CARDS}")
    _write_number(frame, "score", str(game["score"]))
    _write_number(frame, "moves", str(game["moves"]))
    if is_won(game):
        place = LABELS["won"].place
        _blend(frame, _won(int(game["score"]), int(game["moves"])), place.x, place.y)
    return frame


def picture(
    game: Game, deal: str, before: Game | None, reason: int, mask: np.ndarray
) -> np.ndarray:
    """Return what ``render_mode="rgb_array"`` shows of a game: uint8 (640, 960, 3).

    Args:
        game: A record of STATE.
        deal: The deal's code, or ``""``.
        before: The record before the last step, the move of which is marked; None marks nothing.
        reason: The rule that refused the last action, an index of REFUSALS.
        mask: int8, the legal actions.
    """
    note = REFUSALS[reason]
    if not note and not mask.any() and not is_won(game):
        note = "no legal move is left"
    return draw(game, deal, None if before is None else layout.last_move(before, game), note)
