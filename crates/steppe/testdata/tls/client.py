"""A client of Python's: python3 client.py PORT CA"""

import http.client
import ssl
import sys

port, ca = int(sys.argv[1]), sys.argv[2]
content = bytes(at % 251 for at in range(1_000_000))
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = context.maximum_version = version
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
    connection.connect()
    socket = connection.sock
    for path in ("/", "/chunked"):
        for chunked in (False, True):
            body = iter([content[:300_000], content[300_000:]]) if chunked else content
            connection.request("POST", path, body, encode_chunked=chunked)
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read() == content
    assert connection.sock is socket, "it is one connection"
    connection.close()
try:
    http.client.HTTPSConnection("localhost", port, timeout=60).request("GET", "/")
    raise AssertionError("nobody vouches for it")
except ssl.SSLCertVerificationError:
    print("all is well")
