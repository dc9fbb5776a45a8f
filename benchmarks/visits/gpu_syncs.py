"""A student's DQN on the GPU: `gpu_syncs.py sick|cured`; sick brings numbers over at each step."""

import sys
import time

import torch
from torch import nn

sick = sys.argv[1] == "sick"
device = torch.device("cuda")
torch.manual_seed(0)
number, capacity = 64, 100_000


class Walk:
    """Reach the end of a line; the way back costs."""

    def reset(self):
        self.place = torch.zeros(number, device=device)
        return self.observe()

    def observe(self):
        return torch.stack([self.place, self.place**2, self.place.sin(), self.place.cos()], 1)

    def step(self, action):
        self.place = self.place + action.float() - 0.4
        done = self.place.abs() > 5
        reward = torch.where(done, self.place.sign(), -0.01)
        self.place = torch.where(done, 0.0, self.place)
        return self.observe(), reward, done


network = nn.Sequential(nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2)).to(
    device
)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
env = Walk()
obs = env.reset()
states, next_states = (torch.zeros(capacity, 4, device=device) for _ in range(2))
actions = torch.zeros(capacity, dtype=torch.long, device=device)
rewards, dones = (torch.zeros(capacity, device=device) for _ in range(2))
total, start = 0.0, time.perf_counter()
for step in range(1_000_000):
    with torch.no_grad():
        greedy = network(obs).argmax(1)
    action = torch.where(
        torch.rand(number, device=device) < 0.1, torch.randint(0, 2, (number,), device=device), greedy
    )
    following, reward, done = env.step(action)
    place = (step * number) % (capacity - number)
    rows = slice(place, place + number)
    states[rows], actions[rows], rewards[rows] = obs, action, reward
    next_states[rows], dones[rows] = following, done.float()
    obs = following
    if sick:
        total += reward.mean().item()
        finished = done.cpu().numpy().sum()
    batch = torch.randint(0, max(place, number), (4096,), device=device)
    with torch.no_grad():
        target = rewards[batch] + 0.99 * (1 - dones[batch]) * network(next_states[batch]).amax(1)
    value = network(states[batch]).gather(1, actions[batch][:, None])[:, 0]
    loss = nn.functional.mse_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if sick and loss.item() > 1e9:
        break
    if step % 2000 == 1999:
        print(f"{(step + 1) * number / (time.perf_counter() - start):.0f} transitions/s", flush=True)
