"""Other models that a user could choose, fitted and scored beside a model."""
