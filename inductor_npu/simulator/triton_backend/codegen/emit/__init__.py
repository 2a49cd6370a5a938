"""Instructions: what each operation is for lanes of any form."""
