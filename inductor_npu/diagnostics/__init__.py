"""What the package says about itself: compile times, explanations of what torch.compile did, what is off on a machine."""
