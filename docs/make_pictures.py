"""Make the pictures of a finished run, its curve and a game: python docs/make_pictures.py RUN."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import flashdqn
from flashdqn.envs.stage import open_stage
from flashdqn.show.curve import draw_curve
from flashdqn.show.film import save_film, save_strip
from flashdqn.show.play import play_turns


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
    agent = flashdqn.load(arguments.run, "cpu")
    stage = open_stage(agent.config.env)
    turns = list(play_turns(agent, stage, arguments.seed))
    save_strip(stage.view, turns, images / "game.png")
    save_film(stage.view, turns, images / "game.gif", width=121)


if __name__ == "__main__":
    main()
