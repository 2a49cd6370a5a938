"""Start-up: what `import torch` runs, what is registered with Dynamo and Inductor, touches of their private state."""
