"""Training on several devices: scripts for `torchrun`, each started by the line of its first comment."""
