"""`inductor-npu doctor`: what of this machine decides whether torch.compile on `npu` is ours, and what is off."""
