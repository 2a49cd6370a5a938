"""Networks of scientific computing: spectra, equations, splines."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator: the lowest modes are mixed."""

    def __init__(self, modes: int = 6) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(8, 8, modes, 2) / 8)
        self.skip = nn.Conv1d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x)
        mixed = torch.einsum("bik,iok->bok", spectrum[..., : self.modes], torch.view_as_complex(self.weight))
        out = torch.zeros_like(spectrum)
        out[..., : self.modes] = mixed
        return F.gelu(torch.fft.irfft(out, n=x.shape[-1]) + self.skip(x))


class Spectrogram(nn.Module):
    """Sound: windows, a magnitude spectrum, mel-like bands, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.bands, self.out = nn.Linear(17, 12), nn.Linear(12, 5)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        frames = sound.unfold(-1, 32, 16) * self.window
        power = torch.fft.rfft(frames).abs().square()
        features = torch.log1p(F.relu(self.bands(power)))
        return self.out((features - features.mean(1, keepdim=True)).amax(1))


class Kan(nn.Module):
    """Learnt curves on edges, as B-splines by recursion."""

    def __init__(self, inputs: int = 12, outputs: int = 6, order: int = 3, cells: int = 5) -> None:
        super().__init__()
        step = 2 / cells
        knots = torch.arange(-order, cells + order + 1) * step - 1
        self.register_buffer("knots", knots.float())
        self.order = order
        self.spline = nn.Parameter(torch.randn(outputs, inputs, cells + order) / 6)
        self.base = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, u = self.knots, x[..., None]
        bases = ((u >= t[:-1]) & (u < t[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (u - t[: -(k + 1)]) / (t[k:-1] - t[: -(k + 1)]) * bases[..., :-1]
            right = (t[k + 1 :] - u) / (t[k + 1 :] - t[1:-k]) * bases[..., 1:]
            bases = left + right
        return self.base(F.silu(x)) + torch.einsum("bik,oik->bo", bases, self.spline)


class NeuralOde(nn.Module):
    """Steps of Runge and Kutta, then a system of equations is solved."""

    def __init__(self) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 6))

    def forward(self, x: torch.Tensor, h: float = 0.1) -> tuple[torch.Tensor, ...]:
        for _ in range(4):
            k1 = self.field(x)
            k2 = self.field(x + h / 2 * k1)
            k3 = self.field(x + h / 2 * k2)
            k4 = self.field(x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        matrix = torch.eye(6, device=x.device, dtype=x.dtype) + x.mT @ x / 10
        return x, torch.linalg.norm(x, dim=-1), torch.linalg.solve(matrix, x.mT)


class Pinn(nn.Module):
    """Physics-informed: the residual of a heat equation by finite differences of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        def u(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return self.net(torch.stack([x, t], dim=-1)).squeeze(-1)

        h = 0.1
        du_dt = (u(x, t + h) - u(x, t - h)) / (2 * h)
        d2u_dx2 = (u(x + h, t) - 2 * u(x, t) + u(x - h, t)) / h**2
        return (du_dt - 0.1 * d2u_dx2).pow(2).mean() + u(torch.zeros_like(t), t).pow(2).mean()


class GaussianProcess(nn.Module):
    """The marginal likelihood of a regression."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale, self.log_noise = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x / self.log_scale.exp()
        squared = (z[:, None] - z[None]).square().sum(-1)
        kernel = torch.exp(-0.5 * squared) + self.log_noise.exp() * torch.eye(len(x), device=x.device, dtype=x.dtype)
        factor = torch.linalg.cholesky(kernel)
        alpha = torch.cholesky_solve(y[:, None], factor)
        return 0.5 * (y[:, None] * alpha).sum() + factor.diagonal().log().sum()


NETWORKS = {
    "fourier_operator": lambda: (FourierOperator(), (torch.randn(2, 8, 32),)),
    "spectrogram": lambda: (Spectrogram(), (torch.randn(2, 200),)),
    "kan": lambda: (Kan(), (torch.rand(9, 12) * 1.6 - 0.8,)),
    "neural_ode": lambda: (NeuralOde(), (torch.randn(8, 6),)),
    "pinn": lambda: (Pinn(), (torch.rand(30), torch.rand(30))),
    "gaussian_process": lambda: (GaussianProcess(), (torch.randn(12, 3), torch.randn(12))),
}
