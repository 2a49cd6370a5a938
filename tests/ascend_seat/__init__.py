"""The seat of a user with an Ascend chip, without one: the real torch_npu and the real triton-ascend over a stand-in
for CANN (docs/development/status.md). `python -m tests.ascend_seat COMMAND` runs a command there.
"""
