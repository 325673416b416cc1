"""``python -m rehearsal.provider [engine address]``: serve the provider until the engine ends it."""

from rehearsal.provider.server import serve

serve()
