"""What any part may use and nothing here knows a device: files, switches, units, the terminal, other software's versions."""
