"""A classifier of little drawings: every example is drawn in Python by a worker, while the network learns from the
examples before it."""

# ruff: noqa: T201
import argparse
import random
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=1200, help="batches")
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--workers", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)
torch.set_flush_denormal(True)
SIDE, CLASSES = 16, 4


class Drawings(Dataset):
    """Lines, boxes, crosses and dots on a small board."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = random.Random(self.seed * 1_000_003 + index)
        kind, image = index % CLASSES, [[0.0] * SIDE for _ in range(SIDE)]
        row, column = rng.randrange(3, SIDE - 3), rng.randrange(3, SIDE - 3)
        for y in range(SIDE):
            for x in range(SIDE):
                near = abs(y - row) <= 3 and abs(x - column) <= 3
                drawn = (y == row, max(abs(y - row), abs(x - column)) == 3, y - row == x - column, near)[kind]
                image[y][x] = float(drawn) + rng.random() * 0.1
        return torch.tensor(image).flatten(), kind


model = nn.Sequential(
    nn.Linear(SIDE * SIDE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(
    Drawings(64 * 40, args.seed), batch_size=64, num_workers=args.workers, persistent_workers=args.workers > 0
)
updates = 0
start_time = time.perf_counter()
while updates < args.iterations:
    for images, kinds in loader:
        loss = criterion(model(images), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if updates >= args.iterations:
            break

seconds = time.perf_counter() - start_time
checksum = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
print(f"DONE transitions={updates * 64} {updates=} {seconds=:.3f} {checksum=:.9f}")
