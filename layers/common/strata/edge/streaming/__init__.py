"""An ASGI application ↔ Lambda's response stream: what runs instead of the runtime's own client.

The managed Python runtime can only send a whole reply. `AWS_LAMBDA_EXEC_WRAPPER` lets a function replace the runtime,
so `bootstrap` starts this package: it asks the Runtime API for an invocation, gives it to the application as an ASGI
request and sends every part of the reply on as it is made. `_HANDLER` names the application as `module.attribute`.

What a reply looks like on the wire: a JSON prelude (status and headers), eight NUL bytes, the body in HTTP chunks. The
prelude leaves with `http.response.start` at once, also where no body follows (204, 302, HEAD): a reply that starts
with its first body byte would never start there. An error before the prelude is an ordinary invocation error; one
after it travels in the trailers.

The application finds in its scope: `aws.event`, `aws.context`, and `strata.deadline_ms` (epoch milliseconds) when
the platform will stop it. One that is still busy `DEADLINE_MARGIN_S` before that is cancelled, and an event stream gets
a last `error` event, because a reader must not be left in silence. A reader who goes away is never noticed: Lambda has
no signal for it, so `receive` waits until the reply has ended.
"""
