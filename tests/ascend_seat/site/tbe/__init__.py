"""Of CANN's Python packages what libraries ask about a chip. On a machine with CANN they come from its set_env.sh."""
