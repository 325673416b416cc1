"""What runs on the box, on Debian 13's Python with python3-boto3 and python3-yaml and nothing else."""
