from tests.integration.dev.stacks import new_stack, only_redis

__all__ = ["new_stack", "only_redis"]
