"""Start-up: what `import torch` runs, what is registered with Dynamo and Inductor, and every touch of their private state."""
