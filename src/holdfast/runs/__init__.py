"""Runs as their owner sees them: started, waited for, asked, and read to the end."""
