"""An agent in one file: save it, load it elsewhere, and let it act on one observation or on many.

python examples/save_and_load.py
"""

import numpy as np

import flashdqn

run = flashdqn.train("snake", steps=20_000, env={"size": 8}, eval={"every": 0}, progress=False)
run.agent().save("agent.zip")  # weights and settings: no code, and nothing is unpickled

agent = flashdqn.load("agent.zip")
obs = np.zeros(agent.obs_spec.shape, dtype=np.float32)
print("one observation: ", agent.act(obs))
print("its values:      ", agent.q(obs).numpy().round(2))
print("a batch:         ", agent.act(np.stack([obs, obs, obs])))
print("only 0 is legal: ", agent.act(obs, mask=[True, False, False]))
print("half by chance:  ", [agent.act(obs, eps=0.5) for _ in range(10)])
