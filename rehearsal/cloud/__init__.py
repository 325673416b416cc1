"""An AWS on this machine: moto behind a front with the rules that moto leaves out and that break real builds.

`rehearsal.cloud.server.Cloud` starts and stops all of it.
"""

ACCOUNT = "123456789012"
REGION = "us-east-1"
REGISTRY_HOST = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
