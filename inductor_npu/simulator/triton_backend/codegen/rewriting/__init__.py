"""Changes of a kernel's operations before its code is planned: what suits the chip becomes what suits the host."""
