"""Programs that use a client as its own users do; they run in an environment that holds the clients alone."""
