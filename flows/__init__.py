"""When and where the stages run: the only code that knows of Prefect and DVC. It computes nothing."""

from flows.settings import configure

# Prefect reads its settings once, when it is imported; whatever imports a flow passes here first.
configure()
