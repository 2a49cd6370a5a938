"""Training: a small convolutional network on scikit-learn's handwritten digits, forward, backward and optimizer step
compiled.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.measure import synchronize

EPOCHS = 12
BATCH = 64
TARGET_ACCURACY = 0.97


class DigitNet(torch.nn.Module):
    """Images [batch, 1, 8, 8] -> scores [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = torch.nn.BatchNorm2d(32)
        self.classify = torch.nn.Linear(32 * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits for each image."""
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.dropout(F.max_pool2d(x, 2), 0.25, self.training)
        return self.classify(x.flatten(1))


def load_digits(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images and labels, test images and labels (a fifth of the data), on `device`; pixels from 0 to 1."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    pixels, labels = load(return_X_y=True)
    parts = train_test_split(pixels / 16.0, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = (torch.as_tensor(part) for part in parts)
    images = [x.float().reshape(-1, 1, 8, 8).to(device) for x in (train_x, test_x)]
    return images[0], train_y.to(device), images[1], test_y.to(device)


def train(console: Console, device: str) -> float:
    """Trains the network and returns its accuracy on the test images, from 0 to 1."""
    torch.manual_seed(0)
    train_x, train_y, test_x, test_y = load_digits(device)
    net = DigitNet().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)

    @torch.compile
    def loss_of(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(net(images), labels)

    @torch.compile
    def update() -> None:
        optimizer.step()

    columns = (
        TextColumn("epoch {task.fields[epoch]:2d}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
    )
    batches = len(train_x) // BATCH
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("train", total=EPOCHS * batches, epoch=1, loss=float("nan"))
        for epoch in range(1, EPOCHS + 1):
            order = torch.randperm(len(train_x)).to(device)
            for batch in range(batches):
                chosen = order[batch * BATCH : (batch + 1) * BATCH]
                loss = loss_of(train_x[chosen], train_y[chosen])
                loss.backward()
                update()
                optimizer.zero_grad()
                progress.update(task, advance=1, epoch=epoch, loss=loss.item())

    net.eval()
    with torch.no_grad():
        predicted = torch.compile(net)(test_x).argmax(dim=1)
    return (predicted == test_y).float().mean().item()


def show(console: Console, device: str) -> bool:
    """Runs the second half of the demo. Returns whether the network learned."""
    console.rule("[bold]2. Training: handwritten digits")
    start = time.perf_counter()
    accuracy = train(console, device)
    synchronize(device)
    console.print(
        f"Accuracy on unseen digits: {accuracy:.1%} (wanted: {TARGET_ACCURACY:.0%}), "
        f"{time.perf_counter() - start:.0f} s with compiling forward, backward and optimizer step"
    )
    return accuracy >= TARGET_ACCURACY
