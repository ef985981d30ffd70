"""`_HANDLER` → the application it names."""

from __future__ import annotations

import importlib

from strata.edge.streaming.asgi import Application


class HandlerNotFound(Exception):
    """`_HANDLER` names no application."""


def load_application(handler: str) -> Application:
    """The application that `module.attribute` names; slashes in the module part mean folders.

    Raises `HandlerNotFound`, or whatever the module raises while it is imported.
    """
    module_name, _, attribute = handler.rpartition(".")
    if not module_name or not attribute:
        raise HandlerNotFound(f"_HANDLER must read module.attribute, not {handler!r}.")
    module = importlib.import_module(module_name.replace("/", "."))
    application = getattr(module, attribute, None)
    if not callable(application):
        raise HandlerNotFound(f"Module {module_name} holds no application {attribute!r}.")
    return application  # type: ignore[no-any-return]


def init_error_type(error: BaseException) -> str:
    match error:
        case HandlerNotFound():
            return "Runtime.HandlerNotFound"
        case ImportError():
            return "Runtime.ImportModuleError"
        case SyntaxError():
            return "Runtime.UserCodeSyntaxError"
        case _:
            return f"Runtime.{type(error).__name__}"
