"""What torch.compile did, as it happened: graphs, breaks, recompiles, kernels, what ran in eager, caches, time."""
