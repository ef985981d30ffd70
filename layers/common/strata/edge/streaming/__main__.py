"""The process: load the application and serve it until the platform says stop."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import NoReturn

from strata.edge.streaming.loading import init_error_type, load_application
from strata.edge.streaming.running import Runner, end_process
from strata.edge.streaming.runtime_api import RuntimeApi

log = logging.getLogger("strata.streaming")


def main() -> None:
    logging.basicConfig(
        level=os.environ.get("AWS_LAMBDA_LOG_LEVEL", "INFO"), format="[%(levelname)s] %(name)s: %(message)s"
    )
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        application = load_application(os.environ["_HANDLER"])
    except BaseException as error:
        log.error("The application can't be loaded.", exc_info=error)
        api.report_init_error(error, init_error_type(error))
        end_process(1)
    asyncio.run(_run_and_exit(Runner(application, api)))


async def _run_and_exit(runner: Runner) -> NoReturn:
    """Exit from inside the loop: its orderly end would wait for threads that the application left busy."""
    try:
        await runner.run()
    except Exception as error:
        log.error("The runtime ends.", exc_info=error)
        end_process(1)
    end_process(0)


if __name__ == "__main__":
    main()
