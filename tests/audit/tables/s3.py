"""An S3 server of this process, on loopback: moto's."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, Final

from fencepost.audit.source.remote import remote, use

KEYS: Final = {"fs.s3a.access.key": "key", "fs.s3a.secret.key": "secret", "fs.s3a.path.style.access": "true"}


@contextlib.contextmanager
def serving(bucket: str) -> Iterator[dict[str, str]]:
    """A server with one bucket, ended at the end; Hadoop's properties for it, which are in use meanwhile."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    one = threading.Lock()

    def one_by_one(environ: Any, start_response: Any) -> list[bytes]:
        """moto tests a condition and writes in two steps; a real store does it in one."""
        with one:
            return list(app(environ, start_response))

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, one_by_one, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    properties = {**KEYS, "fs.s3a.endpoint": f"http://127.0.0.1:{server.server_port}"}
    use(properties)
    try:
        remote(f"s3a://{bucket}")[0].file_system.mkdir(bucket)
        yield properties
    finally:
        use({})
        server.shutdown()
        thread.join()
        server.server_close()
