"""The command line `holdfast`. A command imports only the parts that it needs."""
