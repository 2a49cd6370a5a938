"""Networks over images and volumes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def _conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs), nn.SiLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = _conv(3, 16), _conv(16, 32), _conv(32, 64)
        self.up2, self.up1 = _conv(96, 32), nn.ConvTranspose2d(32, 16, 2, 2)
        self.out = nn.Conv2d(32, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        c = F.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False)
        b = self.up2(torch.cat([c, b], dim=1))
        return self.out(torch.cat([self.up1(b), a], dim=1))


class Capsules(nn.Module):
    """Capsules with routing by agreement."""

    def __init__(self) -> None:
        super().__init__()
        self.primary = nn.Conv2d(1, 16, 5, 2)
        self.weight = nn.Parameter(torch.randn(1, 72, 5, 6, 8) / 8)

    @staticmethod
    def squash(s: torch.Tensor) -> torch.Tensor:
        squared = (s**2).sum(-1, keepdim=True)
        return squared / (1 + squared) * s / torch.sqrt(squared + 1e-8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = self.squash(self.primary(x).view(x.shape[0], -1, 8))
        predictions = (self.weight @ u[:, :, None, :, None]).squeeze(-1)
        logits = torch.zeros(*predictions.shape[:3], device=x.device, dtype=x.dtype)
        for _ in range(3):
            v = self.squash((logits.softmax(2)[..., None] * predictions).sum(1))
            logits = logits + (predictions * v[:, None]).sum(-1)
        return v.norm(dim=-1)


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.theta = nn.Conv2d(1, 4, 5), nn.Linear(576, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        theta = self.theta(F.relu(self.conv(x)).flatten(1)).view(-1, 2, 3) * 0.1
        theta = theta + torch.eye(2, 3, device=x.device, dtype=x.dtype)
        return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


class HyperNetwork(nn.Module):
    """A network that makes the weights of another one's convolution, image by image."""

    def __init__(self) -> None:
        super().__init__()
        self.make = nn.Linear(5, 8 * 4 * 3 * 3)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        weights = self.make(context).view(batch * 8, 4, 3, 3)
        return F.conv2d(x.reshape(1, -1, height, width), weights, padding=1, groups=batch).view(batch, 8, height, width)


class Volume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(1, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True)
        self.up = nn.ConvTranspose3d(8, 4, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(F.avg_pool3d(F.leaky_relu(self.norm(self.conv(x))), 2))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 12, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return F.pixel_shuffle(self.out(F.relu(self.body(x))), 2) + skip


class Windows(nn.Module):
    """Attention in shifted windows with a table of relative positions."""

    def __init__(self, side: int = 8, window: int = 4, heads: int = 2, width: int = 16) -> None:
        super().__init__()
        self.side, self.window, self.heads = side, window, heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) / 4)
        rows, columns = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        places = torch.stack([rows.flatten(), columns.flatten()])
        apart = places[:, :, None] - places[:, None] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, w = self.side // self.window, self.window
        x = torch.roll(x, (-w // 2, -w // 2), dims=(1, 2))
        x = x.view(-1, n, w, n, w, x.shape[-1]).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, x.shape[-1])
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.flatten()].view(w * w, w * w, -1).permute(2, 0, 1)
        y = ((q @ k.mT) * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v
        y = self.out(y.transpose(1, 2).flatten(2)).view(-1, n, n, w, w, x.shape[-1])
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.side, self.side, x.shape[-1])
        return torch.roll(y, (w // 2, w // 2), dims=(1, 2))


class Detector(nn.Module):
    """One stage: boxes from anchors, focal loss, generalised IoU."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(_conv(3, 16), nn.MaxPool2d(2), _conv(16, 16), nn.MaxPool2d(2))
        self.classes, self.boxes = nn.Conv2d(16, 5, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, truth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.backbone(x)
        logits = self.classes(features).permute(0, 2, 3, 1).flatten(1, 2)
        sizes = F.softplus(self.boxes(features)).permute(0, 2, 3, 1).flatten(1, 2)
        target = F.one_hot(labels, 5).to(x.dtype)
        p = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        focal = ce * (1 - (p * target + (1 - p) * (1 - target))) ** 2
        side = features.shape[-1]
        n = torch.arange(side, device=x.device, dtype=x.dtype) + 0.5
        center = torch.stack(torch.meshgrid(n, n, indexing="xy"), -1).flatten(0, 1)
        box = torch.cat([center - sizes[..., :2], center + sizes[..., 2:]], -1)
        low, high = torch.maximum(box[..., :2], truth[..., :2]), torch.minimum(box[..., 2:], truth[..., 2:])
        overlap = (high - low).clamp(min=0).prod(-1)
        union = (box[..., 2:] - box[..., :2]).prod(-1) + (truth[..., 2:] - truth[..., :2]).prod(-1) - overlap
        return focal.mean(), (1 - overlap / union.clamp(min=1e-6)).mean()


R = torch.randn
NETWORKS = {
    "unet": lambda: (UNet(), (R(2, 3, 32, 32),)),
    "capsules": lambda: (Capsules(), (R(2, 1, 15, 15),)),
    "spatial_transformer": lambda: (SpatialTransformer(), (R(2, 1, 16, 16),)),
    "hypernetwork": lambda: (HyperNetwork(), (R(3, 4, 10, 10), R(3, 5))),
    "volume": lambda: (Volume(), (R(2, 1, 8, 8, 8),)),
    "super_resolution": lambda: (SuperResolution(), (R(2, 3, 9, 9),)),
    "windows": lambda: (Windows(), (R(2, 8, 8, 16),)),
    "detector": lambda: (
        Detector(),
        (R(2, 3, 16, 16), torch.randint(0, 5, (2, 16)), torch.tensor([0.5, 0.5, 3.0, 2.5]).expand(2, 16, 4).clone()),
    ),
}
