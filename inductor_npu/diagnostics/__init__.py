"""What the package says of itself: compile times, what torch.compile did, what is off on a machine."""
