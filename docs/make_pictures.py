"""Make the README's pictures from a finished run: python docs/make_pictures.py RUN."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import flashdqn
from flashdqn.show.curve import draw_curve
from flashdqn.show.snake import draw_film, draw_strip, play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    images = Path(__file__).parent / "images"
    images.mkdir(exist_ok=True)
    curve = draw_curve(arguments.run)
    assert curve is not None
    shutil.copy(curve, images / "curve.png")
    boards = play(flashdqn.load(arguments.run, "cpu"), arguments.seed)
    draw_strip(boards, images / "game.png")
    draw_film(boards, images / "game.gif", cell=12)


if __name__ == "__main__":
    main()
