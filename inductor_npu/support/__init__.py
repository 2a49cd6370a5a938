"""What any part may use, and what knows no device: files, switches, units, the terminal, versions of other software."""
