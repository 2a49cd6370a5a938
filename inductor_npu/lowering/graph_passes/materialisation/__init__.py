"""Values that Inductor computes again, or stores again, for each of their takers: what moves fewer bytes is done."""
