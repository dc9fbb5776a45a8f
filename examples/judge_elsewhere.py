"""One agent on other environments: trained on a small board, judged on larger ones.

python examples/judge_elsewhere.py
"""

import flashdqn

run = flashdqn.train("snake-flood", steps=20_000, env={"size": 8}, eval={"every": 0}, progress=False)
agent = run.agent()
for size in (8, 10, 15):
    result = flashdqn.evaluate(agent, env={"size": size}, episodes=20)
    print(f"{size:>2} x {size:<2} {result.mean_score:5.1f} ± {result.score_error:.1f} food")

try:  # pictures of another size do not fit its network
    flashdqn.evaluate(agent, env={"features": "grid"})
except flashdqn.EnvError as error:
    print(error)
