"""The same DQN whose update is captured once as a CUDA graph, and replayed. Without a GPU it is the same script."""

# ruff: noqa: T201, B905
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=40_000)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--train-frequency", type=int, default=2)
parser.add_argument("--learning-starts", type=int, default=100)
args = parser.parse_args()

torch.manual_seed(args.seed)
torch.set_num_threads(1)
torch.set_flush_denormal(True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Chain:
    """A walk on a line; the right end is worth something."""

    def __init__(self):
        self.place, self.t = 0, 0

    def reset(self):
        self.place, self.t = 0, 0
        return self.observe()

    def observe(self):
        return [self.place / 10, self.t / 50, 1.0, 0.0]

    def step(self, action):
        self.place += 1 if action else -1
        self.t += 1
        return self.observe(), float(self.place >= 10), abs(self.place) >= 10 or self.t >= 50, {}


def make_network():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)).to(
        device
    )


network, target = make_network(), make_network()
target.load_state_dict(network.state_dict())
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, capturable=device.type == "cuda")
size = 10_000
observations, next_observations = (torch.zeros(size, 4, device=device) for _ in range(2))
actions = torch.zeros(size, dtype=torch.int64, device=device)
rewards, dones = (torch.zeros(size, device=device) for _ in range(2))
rows = torch.zeros(args.batch_size, dtype=torch.int64, device=device)


def learn():
    with torch.no_grad():
        best = target(next_observations[rows]).max(1).values
        wanted = rewards[rows] + 0.98 * best * (1 - dones[rows])
    value = network(observations[rows]).gather(1, actions[rows, None]).squeeze(1)
    loss = F.smooth_l1_loss(value, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def capture():
    """Capture an update, and undo what the rehearsals learned."""
    before = [parameter.detach().clone() for parameter in network.parameters()]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            learn()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        learn()
    with torch.no_grad():
        for parameter, old in zip(network.parameters(), before):
            parameter.copy_(old)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()
    return graph.replay


train_step = capture() if device.type == "cuda" else learn
env, updates = Chain(), 0
obs = env.reset()
coins = torch.rand(args.iterations, generator=torch.Generator().manual_seed(args.seed)).tolist()

start_time = time.perf_counter()
for step in range(args.iterations):
    if coins[step] < 0.5:
        action = int(coins[step] < 0.25)
    else:
        with torch.no_grad():
            action = network(torch.tensor([obs], device=device)).argmax().item()
    next_obs, reward, done, _ = env.step(action)
    row = step % size
    observations[row] = torch.tensor(obs)
    next_observations[row] = torch.tensor(next_obs)
    actions[row], rewards[row], dones[row] = action, reward, float(done)
    obs = env.reset() if done else next_obs
    if step >= args.learning_starts and step % args.train_frequency == 0:
        rows.copy_(torch.randint(min(step + 1, size), (args.batch_size,), device=device))
        train_step()
        updates += 1
    if step % 500 == 0:
        target.load_state_dict(network.state_dict())

seconds = time.perf_counter() - start_time
checksum = sum(parameter.double().abs().sum().item() for parameter in network.parameters())
print(f"DONE transitions={args.iterations} {updates=} {seconds=:.3f} {checksum=:.9f}")
