"""Random numbers in compiled code: reproducible under a seed, rightly distributed, the same forward and backward."""

from __future__ import annotations

import torch


def _twice(fn, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    first = fn(*inputs)
    torch.manual_seed(7)
    return first, fn(*inputs)


def test_dropout_is_reproducible() -> None:
    dropout = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.3), fullgraph=True)
    first, second = _twice(dropout, torch.ones(10_000).to("npu"))
    assert torch.equal(first.cpu(), second.cpu())
    kept = first.cpu() != 0
    assert abs(kept.float().mean().item() - 0.7) < 0.02
    torch.testing.assert_close(first.cpu()[kept], torch.full((int(kept.sum()),), 1 / 0.7))


def test_other_calls_draw_other_numbers() -> None:
    draw = torch.compile(lambda x: torch.rand_like(x), fullgraph=True)
    x = torch.empty(1000).to("npu")
    assert not torch.equal(draw(x).cpu(), draw(x).cpu())


def test_distributions() -> None:
    def draw(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.rand_like(x),
            torch.randn_like(x),
            torch.randint_like(x, 10),
            torch.bernoulli(torch.full_like(x, 0.25)),
        )

    uniform, normal, integers, coins = (
        t.cpu() for t in torch.compile(draw, fullgraph=True)(torch.empty(50_000).to("npu"))
    )
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert set(integers.unique().tolist()) == set(range(10))
    assert abs(coins.mean() - 0.25) < 0.01


def test_backward_uses_the_mask_of_forward() -> None:
    x = torch.ones(5000).to("npu").requires_grad_()
    y = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5) * 3, fullgraph=True)(x)
    y.sum().backward()
    assert torch.equal((y != 0).cpu(), (x.grad != 0).cpu())


def test_eager_numbers_on_request() -> None:
    with torch._inductor.config.patch(fallback_random=True):
        torch.manual_seed(3)
        compiled = torch.compile(lambda x: torch.rand_like(x) * 2, fullgraph=True)(torch.empty(100).to("npu"))
        torch.manual_seed(3)
        eager = torch.rand_like(torch.empty(100).to("npu")) * 2
    torch.testing.assert_close(compiled.cpu(), eager.cpu())
