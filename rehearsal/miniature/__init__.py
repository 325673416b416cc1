"""The world that the real Dockerfiles are baked in where nobody can build ROCm: a small base image and small upstreams.

What a miniature is and is not: docs/miniature.md.
"""
