"""A stand-in for Pulumi's AWS provider plugin (``pulumi-resource-aws``), for rehearsals and tests only.

It turns the resource types and functions that this program uses (tokens of pulumi_aws 7) into AWS API calls with boto3,
on whichever AWS the environment names (``AWS_ENDPOINT_URL``, ``AWS_CA_BUNDLE``, ``AWS_REGION``, keys). It knows nothing
of the rehearsal. A type, function or property that it does not implement is an error that names it, never ignored.
Real stacks use the official plugin, which ``pulumi`` fetches itself.

``resource.py`` says what a resource type is; one module per AWS service holds the types; ``server.py`` speaks to the
engine.
"""
