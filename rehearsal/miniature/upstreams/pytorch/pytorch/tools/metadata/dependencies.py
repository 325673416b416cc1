"""What the wheel requires, and what a distributor adds to it."""

import os


def dynamic_metadata(settings, project):
    extra = os.environ.get("PYTORCH_EXTRA_INSTALL_REQUIREMENTS", "")
    return {"dependencies": ["typing-extensions>=4.10.0", *filter(None, extra.split("|"))]}
