"""Sessions as an agent sees them: what their runs did since it last looked, and the end of their runs."""
