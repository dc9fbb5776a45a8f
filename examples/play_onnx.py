"""A trained agent without PyTorch: NumPy, onnxruntime and the game.

flashdqn train cartpole
flashdqn export runs/cartpole-… --out cartpole.onnx
python examples/play_onnx.py cartpole.onnx
"""

import sys

import gymnasium

import flashdqn

agent = flashdqn.load_onnx(sys.argv[1])
env = gymnasium.make(agent.description.env["id"])
obs, info = env.reset(seed=0)
score, over = 0.0, False
while not over:
    action = agent.act(obs) + agent.description.first_action
    obs, reward, terminated, truncated, info = env.step(action)
    score, over = score + float(reward), terminated or truncated
print(f"{agent.description.preset}, trained for {agent.description.steps:,} steps: {score:g} points")
