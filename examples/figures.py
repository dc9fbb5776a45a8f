"""The figures of a run: arrays of every column, a DataFrame, and the learning curve.

python examples/figures.py
"""

import flashdqn

run = flashdqn.train("snake", steps=20_000, eval={"every": 10_000}, log={"every": 2_500}, progress=False)

metrics = run.metrics()  # a NumPy array for every column of metrics.csv
print(f"columns: {', '.join(list(metrics)[:8])}, …")
print(f"loss from {metrics['loss'][1]:.4f} to {metrics['loss'][-1]:.4f}")

evaluations = run.evaluations()
best = evaluations["mean_score"].argmax()
print(f"best evaluation: {evaluations['mean_score'][best]:.2f} at {evaluations['step'][best]:,} steps")

run.figure().savefig("curve.pdf")
print(f"curve.pdf and {run.path / 'report.html'}")

# Tomorrow, in another program:
again = flashdqn.Run.open(run.path)
print(f"{again.path.name}: {again.score:.2f}")
