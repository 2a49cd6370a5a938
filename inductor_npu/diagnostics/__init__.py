"""Reports of the package: compile times, what torch.compile did, what is wrong on a machine."""
