"""A server of the Model Context Protocol for tests: `stdio`, or `http PORT READY [json]`."""

import os
import socket
import sys
import threading
import time
import typing

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(structured_output=False)
def describe(name: str) -> str:
    """Gives JSON as text."""
    return '{"name": "%s", "pid": %d}' % (name, os.getpid())


@server.tool(structured_output=False)
def say(text: str) -> str:
    """Gives text as it is."""
    return text


@server.tool()
def point(x: float) -> dict[str, typing.Any]:
    """Gives a structure."""
    return {"x": x, "where": {"deep": [1, 2]}}


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ToolError(why)


@server.tool()
async def chatty(context: Context) -> str:
    """Tells something before it answers."""
    await context.info("on my way")
    return "done"


@server.tool()
def die() -> str:
    """Ends the server."""
    print("out of order", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def sleep(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "awake"


@server.tool(structured_output=False)
def variable(name: str) -> str:
    """What the environment says."""
    return os.environ.get(name, "unset")


@server.resource("config://settings")
def settings() -> str:
    """A resource."""
    return '{"color": "green"}'


@server.prompt()
def greet(name: str) -> str:
    """A prompt."""
    return f"Say hello to {name}."


def tell_when_ready(port: int, ready: str) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.02)
    with open(ready, "w") as file:
        file.write("ready\n")


if sys.argv[1] == "stdio":
    server.run()
else:
    port, ready = int(sys.argv[2]), sys.argv[3]
    threading.Thread(target=tell_when_ready, args=(port, ready), daemon=True).start()
    server.run(transport="streamable-http", host="127.0.0.1", port=port, json_response="json" in sys.argv[4:])
