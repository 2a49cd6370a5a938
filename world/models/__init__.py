"""Models of libraries: each module has `members()` and `build(member)`, and imports its library when it is asked."""
