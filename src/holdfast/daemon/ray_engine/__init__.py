"""The engine that places the daemon's runs on the nodes of a Ray cluster, and keeps a copy of each journal here."""
