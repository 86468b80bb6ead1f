"""Chat models and embedders behind the ports."""
