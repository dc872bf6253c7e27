"""The art of the table: the shapes of the suits and the colours, drawn for this project.

Shapes are SVG path data in a box of 100 x 100, made of absolute ``M``, ``L``, ``C`` and ``Z`` only,
so that pages can use them directly and :func:`flatten` can turn them into polygons. The suits have
four colours, two dark and two warm, which also differ in lightness, so that they can be told apart
in a thumbnail and by colour-blind people; since columns are built in suit, colours show them.
"""

from __future__ import annotations

from typing import Any

Colour = tuple[int, int, int]
Point = tuple[float, float]

# Spades, hearts, diamonds, clubs.
SUIT_COLOURS: tuple[Colour, ...] = ((24, 27, 34), (190, 18, 52), (214, 96, 8), (14, 94, 112))

FELT_LIGHT: Colour = (33, 92, 82)  # the table, at its brightest ...
FELT_DARK: Colour = (19, 58, 56)  # ... and at its edges
HEADER: Colour = (14, 40, 40)
FACE: Colour = (252, 251, 247)
COURT: Colour = (246, 240, 226)  # the background of a court card's panel
EDGE: Colour = (150, 152, 146)  # the line around a card
BACK: Colour = (42, 72, 122)
BACK_LINE: Colour = (150, 176, 214)
TEXT: Colour = (244, 247, 243)
FAINT_TEXT: Colour = (150, 184, 174)
MARK: Colour = (255, 196, 46)  # the last move


def _circle(x: float, y: float, radius: float) -> str:
    k = 0.5523 * radius  # for four cubics that approximate a circle
    r = radius
    return (
        f"M{x} {y - r}"
        f" C{x + k} {y - r} {x + r} {y - k} {x + r} {y}"
        f" C{x + r} {y + k} {x + k} {y + r} {x} {y + r}"
        f" C{x - k} {y + r} {x - r} {y + k} {x - r} {y}"
        f" C{x - r} {y - k} {x - k} {y - r} {x} {y - r} Z"
    )


_SPADE = (
    "M50 4 C38 26 7 42 7 63 C7 76 17 84 28 84 C36 84 43 80 47 73 C46 83 42 90 33 96 L67 96"
    " C58 90 54 83 53 73 C57 80 64 84 72 84 C83 84 93 76 93 63 C93 42 62 26 50 4 Z"
)
_HEART = (
    "M50 94 C40 74 6 56 6 31 C6 16 17 7 29 7 C39 7 46 13 50 22 C54 13 61 7 71 7"
    " C83 7 94 16 94 31 C94 56 60 74 50 94 Z"
)
_DIAMOND = "M50 3 C58 20 71 37 86 50 C71 63 58 80 50 97 C42 80 29 63 14 50 C29 37 42 20 50 3 Z"
_CLUB = " ".join(
    (
        _circle(50, 26, 22.5),
        _circle(27, 58, 22.5),
        _circle(73, 58, 22.5),
        "M40 36 L60 36 L66 60 L34 60 Z",
        "M54 50 C53 74 57 88 67 96 L33 96 C43 88 47 74 46 50 Z",
    )
)

SUIT_PATHS: tuple[str, ...] = (_SPADE, _HEART, _DIAMOND, _CLUB)

# The shapes above the suit on a jack, a queen and a king.
CROWN_PATHS: tuple[str, ...] = (
    "M16 84 L10 42 L50 66 L90 42 L84 84 Z",
    " ".join(
        (
            "M16 84 L8 44 L34 62 L50 32 L66 62 L92 44 L84 84 Z",
            _circle(8, 40, 8),
            _circle(50, 28, 8),
            _circle(92, 40, 8),
        )
    ),
    "M14 68 L4 26 L28 48 L34 16 L50 44 L66 16 L72 48 L96 26 L86 68 Z M14 74 L86 74 L86 86 L14 86 Z",
)


def art_json() -> dict[str, Any]:
    """Return the art as lists, numbers and strings, for ``json.dumps``; colours are [r, g, b].

    Returns:
        Keys ``suits`` and ``crowns`` (path data), ``suit_colours`` and ``colours`` (by name).
    """
    colours = {
        "felt_light": FELT_LIGHT,
        "felt_dark": FELT_DARK,
        "header": HEADER,
        "face": FACE,
        "court": COURT,
        "edge": EDGE,
        "back": BACK,
        "back_line": BACK_LINE,
        "text": TEXT,
        "faint_text": FAINT_TEXT,
        "mark": MARK,
    }
    return {
        "suits": list(SUIT_PATHS),
        "crowns": list(CROWN_PATHS),
        "suit_colours": [list(colour) for colour in SUIT_COLOURS],
        "colours": {name: list(colour) for name, colour in colours.items()},
    }


def flatten(path: str, pieces: int = 12) -> list[list[Point]]:
    """Return the polygons of a path; their union is the shape.

    Args:
        path: Path data of this module: absolute ``M``, ``L``, ``C``, ``Z``.
        pieces: The number of lines that approximate a curve.

    Raises:
        ValueError: The path holds another command.
    """
    for letter in "MLCZ":
        path = path.replace(letter, f" {letter} ")
    words = iter(path.split())
    polygons: list[list[Point]] = []

    def point() -> Point:
        return float(next(words)), float(next(words))

    for word in words:
        if word == "M":
            polygons.append([point()])
        elif word == "L":
            polygons[-1].append(point())
        elif word == "C":
            start, a, b, end = polygons[-1][-1], point(), point(), point()
            for i in range(1, pieces + 1):
                t = i / pieces
                s = 1 - t
                weights = (s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t)
                polygons[-1].append(
                    (
                        sum(w * p[0] for w, p in zip(weights, (start, a, b, end), strict=True)),
                        sum(w * p[1] for w, p in zip(weights, (start, a, b, end), strict=True)),
                    )
                )
        elif word != "Z":
            raise ValueError(f"path data here is M, L, C and Z, not {word!r}")
    return polygons
