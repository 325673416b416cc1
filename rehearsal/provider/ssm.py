"""Systems Manager."""

from rehearsal.provider.aws import Aws
from rehearsal.provider.resource import Function
from rehearsal.provider.wire import Properties


def get_parameter(aws: Aws, arguments: Properties) -> Properties:
    """Give a parameter's value, as `aws.ssm.get_parameter` does."""
    decrypt = arguments.get("withDecryption", True)
    parameter = aws.ssm.get_parameter(Name=arguments["name"], WithDecryption=decrypt)["Parameter"]
    plain = {} if parameter["Type"] == "SecureString" else {"insecureValue": parameter["Value"]}
    return {
        "id": parameter["Name"],
        "region": aws.region,
        "name": parameter["Name"],
        "arn": parameter["ARN"],
        "type": parameter["Type"],
        "value": parameter["Value"],
        "version": parameter["Version"],
        "withDecryption": decrypt,
        **plain,
    }


FUNCTIONS = (Function("aws:ssm/getParameter:getParameter", frozenset({"name", "withDecryption"}), get_parameter),)
