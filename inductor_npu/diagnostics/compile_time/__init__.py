"""Where the time of a compile goes: phases, the record of a process, and how it is printed."""
